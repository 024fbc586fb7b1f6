// The entry of a program for aarch64, with landing pads. Those of the C library (crt1.o and its like) have none,
// and the loader would come to them by an indirect branch.
    .global _start
    .type _start, %function
_start:
    hint 38                     // bti jc
    mov x29, xzr                // no frame lies above
    mov x30, xzr
    mov x5, x0                  // what the loader wants called at the end
    ldr x1, [sp]                // how many arguments, and where they are
    add x2, sp, #8
    mov x6, sp
    adrp x0, main
    add x0, x0, :lo12:main
    mov x3, xzr                 // initializers, which the C library now finds by itself
    mov x4, xzr
    bl __libc_start_main
    brk #1

// The address by which the C library knows this program: the rest of what crt1.o and its like have.
    .data
    .balign 8
    .global __dso_handle
    .hidden __dso_handle
__dso_handle:
    .quad __dso_handle

// The note by which the linker knows that this object has landing pads, and signs return addresses.
    .section .note.gnu.property, "a"
    .balign 8
    .long 4, 16, 5
    .asciz "GNU"
    .long 0xc0000000, 4, 3, 0
