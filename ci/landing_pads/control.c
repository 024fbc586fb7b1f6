// A jump to code without a landing pad must end the process by SIGILL: otherwise the tests show nothing. With
// an argument, it goes to code with one, which must be fine.

__asm__(".global no_pad, pad\n"
        "no_pad: ret\n"
        "pad: hint 34\n" // bti c
        "ret");

extern void no_pad(void), pad(void);

int main(int count, char **arguments) {
    (void)arguments;
    void (*volatile function)(void) = count > 1 ? pad : no_pad;
    function();
    return 0;
}
