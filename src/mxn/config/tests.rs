//! What settings are refused, and what the environment overrides.

use super::*;
use std::ffi::OsString;

fn resolve(builder: Builder, env: &[(&str, &str)]) -> io::Result<Settings> {
    builder
        .resolve_in(&|name| env.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
}

/// Returns the CPUs that this process may use.
fn allowed() -> Vec<usize> {
    affinity::allowed().unwrap()
}

fn slots(concurrency: usize) -> Builder {
    Builder::default().concurrency(concurrency)
}

#[test]
fn defaults() {
    let settings = resolve(Builder::default(), &[]).unwrap();
    assert_eq!(settings.concurrency, sys::affinity::available());
    assert_eq!(settings.max_lwps, 1024);
    assert_eq!(settings.stack_size, 256 << 10);
    assert_eq!(settings.bound_stack_size, 2 << 20);
    assert_eq!(settings.time_slice, Some(Duration::from_millis(10)));
    assert_eq!(settings.register, None);
    assert_eq!((settings.on_deadlock, settings.lock_stats), (OnDeadlock::Ignore, false));
    assert!(!settings.migrate_always);
}

#[test]
fn a_variable_overrides_the_default_but_not_what_was_set() {
    let allowed = allowed();
    let (all, first) = (CpuList(&allowed).to_string(), allowed[0]);
    let env = [
        (settings::CONCURRENCY, "3"),
        (settings::CPUS, all.as_str()),
        (settings::MAX_LWPS, "9"),
        (settings::STACK_SIZE, "64K"),
        (settings::TIME_SLICE, "off"),
        (settings::THREAD_REGISTER, "syscall"),
        (settings::DEADLOCK, "report"),
        (settings::LOCK_STATS, "on"),
    ];
    let from_env = Settings {
        concurrency: 3,
        follows_cpus: false,
        cpus: Some(allowed.as_slice().into()),
        max_lwps: 9,
        stack_size: 64 << 10,
        bound_stack_size: BOUND_STACK_SIZE,
        time_slice: None,
        preemption_signal: Some(sys::preempt::DEFAULT_SIGNAL),
        register: Some(ThreadRegister::Syscall),
        lwp_age: Some(DEFAULT_LWP_AGE),
        on_deadlock: OnDeadlock::Report,
        lock_stats: true,
        green_std_threads: None,
        migrate_always: false,
    };
    assert_eq!(resolve(Builder::default(), &env).unwrap(), from_env);

    let ms = Some(Duration::from_millis(1));
    let set = slots(2)
        .green_std_threads(false)
        .cpus([first, first])
        .max_lwps(4)
        .stack_size(1 << 20)
        .time_slice(ms)
        .preemption_signal(None)
        .thread_register(ThreadRegister::Switched)
        .lwp_age(None)
        .on_deadlock(OnDeadlock::Abort)
        .migrate_always(true);
    let wanted = Settings {
        concurrency: 2,
        follows_cpus: false,
        cpus: Some([first].into()),
        max_lwps: 4,
        stack_size: 1 << 20,
        bound_stack_size: BOUND_STACK_SIZE,
        time_slice: ms,
        preemption_signal: None,
        register: Some(ThreadRegister::Switched),
        lwp_age: None,
        on_deadlock: OnDeadlock::Abort,
        lock_stats: true,
        green_std_threads: Some(false),
        migrate_always: true,
    };
    assert_eq!(resolve(set, &env).unwrap(), wanted);
}

#[test]
fn the_default_concurrency_is_that_of_the_cpus() {
    let (all, first) = (allowed(), allowed()[0]);
    let one = resolve(Builder::default().cpus([first]), &[]).unwrap();
    assert_eq!((one.concurrency, one.follows_cpus), (1, true));
    let wanted = affinity::available_of(&all);
    assert_eq!(resolve(Builder::default().cpus(all), &[]).unwrap().concurrency, wanted);
    let more = resolve(slots(3).cpus([first]), &[]).unwrap();
    assert_eq!((more.concurrency, more.follows_cpus), (3, false));
}

#[test]
fn cpus_that_the_process_may_not_use_are_named() {
    let (all, none) = (allowed(), 8191);
    let expected = format!("expected CPUs out of {}", CpuList(&all));
    let mixed = format!("{},{none}", all[0]);
    for (builder, given, wrong) in [
        (Builder::default().cpus([]), "invalid cpus ``", "there is none"),
        (Builder::default().cpus([none, none]), "invalid cpus `8191`", "may not use 8191"),
        (Builder::default().cpus([1 << 40]), "invalid cpus `1099511627776`", "may not use 1099511627776"),
        (Builder::default().cpus([none, all[0]]), &format!("invalid cpus `{mixed}`"), "may not use 8191,"),
        (Builder::default(), &format!("invalid value `{mixed}` in SELVEDGE_CPUS"), "may not use 8191,"),
    ] {
        let error = resolve(builder, &[(settings::CPUS, &mixed)]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let text = error.to_string();
        for part in [given, wrong, &expected] {
            assert!(text.contains(part), "{text:?} does not say {part:?}");
        }
    }
}

#[test]
fn what_was_set_hides_nonsense_in_the_environment() {
    let env = [(settings::CONCURRENCY, "none"), (settings::THREAD_REGISTER, "x")];
    // SAFETY: nothing is built from it.
    let builder = unsafe { slots(1).pinned() };
    assert_eq!(resolve(builder, &env).unwrap().register, Some(ThreadRegister::Pinned));
}

#[test]
fn nonsense_in_the_environment_is_named() {
    for (name, value, allowed) in [
        (settings::CONCURRENCY, "0", "1 to 2047"),
        (settings::CONCURRENCY, "two", "1 to 2047"),
        (settings::CONCURRENCY, "-1", "1 to 2047"),
        (settings::CONCURRENCY, "", "1 to 2047"),
        (settings::MAX_LWPS, "40000", "1 to 2047"),
        (settings::CPUS, "", "such as 0-3,8"),
        (settings::CPUS, "all", "such as 0-3,8"),
        (settings::CPUS, "3-0", "such as 0-3,8"),
        (settings::CPUS, "0-9999", "up to 8191"),
        (settings::STACK_SIZE, "0", "256K"),
        (settings::STACK_SIZE, "8MB", "256K"),
        (settings::STACK_SIZE, "2048G", "256K"),
        (settings::STACK_SIZE, "65G", "64 GiB"),
        (settings::TIME_SLICE, "10", "10ms"),
        (settings::TIME_SLICE, "0ms", "10ms"),
        (settings::TIME_SLICE, "49us", "10ms"),
        (settings::TIME_SLICE, "on", "off"),
        (settings::THREAD_REGISTER, "pinned", "auto, switched or syscall"),
        (settings::THREAD_REGISTER, "Auto", "auto, switched or syscall"),
        (settings::DEADLOCK, "on", "off, report or abort"),
        (settings::LOCK_STATS, "1", "on or off"),
    ] {
        let error = resolve(Builder::default(), &[(name, value)]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(text.contains(name) && text.contains(&format!("`{value}`")), "{name}={value}: {text}");
        assert!(text.contains(allowed), "{name}={value}: {text}");
    }
}

#[test]
fn nonsense_that_was_set_is_named() {
    let us = Some(Duration::from_micros(1));
    for (builder, said) in [
        (slots(0), "concurrency 0"),
        (slots(1 << 20), "1 to 2047"),
        (slots(4).max_lwps(0), "max_lwps 0"),
        (slots(4).max_lwps(3), "max_lwps 3"),
        (slots(4).stack_size(0), "stack size 0"),
        (slots(4).stack_size(usize::MAX), "1 TiB"),
        (slots(4).thread_register(ThreadRegister::Pinned), "Builder::pinned"),
        (slots(4).time_slice(us), "at least 50µs"),
        (slots(4).time_slice(Some(Duration::ZERO)), "at least 50µs"),
    ] {
        let error = resolve(builder.clone(), &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(said), "{builder:?}: {error}");
    }
}

#[test]
fn limits_fit_together() {
    assert_eq!(resolve(slots(2000), &[]).unwrap().max_lwps, 2000);
    let error = resolve(slots(8), &[(settings::MAX_LWPS, "4")]).unwrap_err();
    assert!(error.to_string().contains(settings::MAX_LWPS), "{error}");
    assert_eq!(resolve(Builder::default().stack_size(1), &[]).unwrap().stack_size, 4 << 10);
}
