#!/bin/sh
# What cargo runs in the place of rustc for the crates of this workspace, in `.ci/run`. What is compiled there
# has no lines for backtraces: they take a fifth of the work. But tests of what shows backtraces read them:
# the library has them, and two test programs. gdb also finds its script in a section of those for debuggers.
case " $* " in
    *" --crate-name selvedge "*" --test "*) ;;
    *" --crate-name selvedge "* | *" --crate-name gdb "* | *" --crate-name threadmon "*)
        exec "$@" -C debuginfo=line-tables-only -C strip=none
        ;;
esac
exec "$@"
