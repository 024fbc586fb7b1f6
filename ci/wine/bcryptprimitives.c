/* std's hash maps take their random numbers from `bcryptprimitives.dll`, which Wine 8 lacks. Where it
 * is missing, this is built as that library. */
#include <stddef.h>

__declspec(dllimport) unsigned char __stdcall SystemFunction036(void *buffer, unsigned long length);

__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *data, size_t length)
{
    return SystemFunction036(data, (unsigned long)length);
}
