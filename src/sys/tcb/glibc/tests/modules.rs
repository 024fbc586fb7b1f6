//! Modules that come and go while blocks live: real ones, compiled when the test runs.

use std::ffi::CString;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::*;

/// A module with one thread-local that starts at 40 and one of zeros, and a function that adds to the first.
struct Module {
    handle: *mut c_void,
    bump: extern "C" fn() -> i32,
}

/// A compiled module, in a folder of its own that is removed with it.
struct Compiled {
    file: PathBuf,
    _folder: TempDir,
}

const BUMP: &str =
    "int bump(void) { for (int i = 0; i < 100; i++) counter += zeros[i]; zeros[50] = 1; return ++counter; }";

/// Compiles a module. Returns `None`, and prints that, if there is no C compiler.
fn compile(name: &str, model: &str) -> Option<Compiled> {
    let tls = format!(r#"static __thread __attribute__((tls_model("{model}")))"#);
    compile_source(name, &format!("{tls} int counter = 40; {tls} char zeros[100]; {BUMP}"))
}

/// Compiles this source, like [`compile`].
fn compile_source(name: &str, source: &str) -> Option<Compiled> {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join(format!("{name}.c")), folder.path().join(format!("{name}.so")));
    std::fs::write(&from, source).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compiler = Command::new(compiler);
    if cfg!(target_arch = "aarch64") {
        // Its default puts plain modules into the static surplus too, if there is room.
        compiler.arg("-mtls-dialect=trad");
    }
    match compiler.args(["-shared", "-fPIC", "-O1", "-o"]).args([&to, &from]).output() {
        Ok(cc) if cc.status.success() => Some(Compiled { file: to, _folder: folder }),
        Ok(cc) => panic!("{}", String::from_utf8_lossy(&cc.stderr)),
        Err(error) => {
            println!("skipped: no C compiler to make a module with: {error}");
            None
        }
    }
}

impl Compiled {
    fn name(&self) -> CString {
        CString::new(self.file.to_str().unwrap()).unwrap()
    }
}

impl Module {
    fn load(file: &Compiled) -> Self {
        // SAFETY: a module of this test, without constructors.
        Self::of(unsafe { libc::dlopen(file.name().as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) })
    }

    /// Loads it into a namespace of its own, with a C library of its own. Returns `None`, and prints that, if
    /// the loader finds none that fits.
    fn load_apart(file: &Compiled) -> Option<Self> {
        // SAFETY: a module of this test, without constructors.
        let handle = unsafe { libc::dlmopen(libc::LM_ID_NEWLM, file.name().as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            println!("skipped: no second C library");
            return None;
        }
        Some(Self::of(handle))
    }

    fn of(handle: *mut c_void) -> Self {
        assert!(!handle.is_null());
        // SAFETY: the module has it.
        let bump = unsafe { libc::dlsym(handle, c"bump".as_ptr()) };
        assert!(!bump.is_null());
        // SAFETY: its type in the source above.
        Self { handle, bump: unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> i32>(bump) } }
    }

    /// Makes two calls in a new life: one more, then one more and the zero that is one by then.
    fn is_fresh(&self) {
        assert_eq!((self.bump)(), 41);
        assert_eq!((self.bump)(), 43);
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded once, and no thread is in it.
        assert_eq!(unsafe { libc::dlclose(self.handle) }, 0);
    }
}

/// Thread-locals apart from the block are right in every block, old or new, and fresh in each life.
#[test]
fn a_plain_module() {
    if !alone("modules::a_plain_module") {
        return;
    }
    let Some(path) = compile("plain", "global-dynamic") else { return };
    let old = Slot::new();
    old.life(|| ());
    let module = Module::load(&path);
    let new = Slot::new();
    // A life that began before the module came.
    old.with(|| module.is_fresh());
    // Every life that touches it leaves the slow way to the next.
    for _ in 0..3 {
        new.life(|| module.is_fresh());
        assert_eq!(new.renew(), Renewed::Rebuilt);
    }
    // A life that does not touch it leaves the fast way to the next.
    new.life(|| ());
    assert_eq!(new.renew(), Renewed::Reset);
    assert_eq!(old.renew(), Renewed::Rebuilt);
    old.life(|| module.is_fresh());
}

/// The loader does not show modules of other namespaces.
#[test]
fn a_module_of_another_namespace() {
    if !alone("modules::a_module_of_another_namespace") {
        return;
    }
    let Some(path) = compile("another", "global-dynamic") else { return };
    let old = Slot::new();
    let Some(module) = Module::load_apart(&path) else { return };
    let new = Slot::new();
    for slot in [&old, &new] {
        for _ in 0..3 {
            slot.life(|| module.is_fresh());
            assert_eq!(slot.renew(), Renewed::Rebuilt);
        }
    }
    drop(module);
    for slot in [&old, &new] {
        assert_eq!(slot.renew(), Renewed::Rebuilt);
        slot.life(|| assert_eq!(check_library(), Ok(())));
        assert_eq!(slot.renew(), Renewed::Reset);
    }
}

/// Static thread-locals of a module that comes later. Blocks made or renewed after it have its first values.
#[test]
fn a_module_with_static_thread_locals() {
    if !alone("modules::a_module_with_static_thread_locals") {
        return;
    }
    let Some(path) = compile("static", "initial-exec") else { return };
    let old = Slot::new();
    old.life(|| ());
    let module = Module::load(&path);
    // The limit that is documented: a block that was not renewed since has zeros.
    old.with(|| assert_eq!((module.bump)(), 1));
    assert_eq!(old.renew(), Renewed::Rebuilt);
    let new = Slot::new();
    for slot in [&old, &new] {
        for _ in 0..3 {
            slot.life(|| module.is_fresh());
            assert_eq!(slot.renew(), Renewed::Reset);
        }
    }
    drop(module);
    for slot in [&old, &new] {
        assert_eq!(slot.renew(), Renewed::Rebuilt);
        slot.life(|| assert_eq!(check_library(), Ok(())));
        assert_eq!(slot.renew(), Renewed::Reset);
    }
}

/// A module that gets the place of one that was unloaded finds zeros in older blocks, not what that one left.
#[test]
fn a_module_in_the_place_of_another() {
    if !alone("modules::a_module_in_the_place_of_another") {
        return;
    }
    let (Some(first), Some(second)) = (compile("first", "initial-exec"), compile("second", "initial-exec"))
    else {
        return;
    };
    let first = Module::load(&first);
    let slot = Slot::new();
    slot.life(|| first.is_fresh());
    drop(first);
    assert_eq!(slot.renew(), Renewed::Rebuilt);
    let second = Module::load(&second);
    slot.with(|| assert_eq!((second.bump)(), 1));
    assert_eq!(slot.renew(), Renewed::Rebuilt);
    slot.life(|| second.is_fresh());
}

/// Thread-locals are apart from the block until another module comes that needs them in it. No generation
/// shows that.
#[test]
fn a_plain_module_that_becomes_static() {
    if !alone("modules::a_plain_module_that_becomes_static") {
        return;
    }
    let model = |model| format!(r#"__thread __attribute__((tls_model("{model}"), visibility("default")))"#);
    let declared = |tls: String| format!("{tls} int counter; extern {tls} char zeros[100];");
    let owner = format!(
        "{0} int counter = 40; {0} char zeros[100]; void *owner(void) {{ return &counter; }}",
        model("global-dynamic")
    );
    let user = format!("extern {} {BUMP}", declared(model("initial-exec")));
    let (Some(owner), Some(user)) = (compile_source("owner", &owner), compile_source("user", &user)) else {
        return;
    };
    // SAFETY: a module of this test, without constructors.
    let owner = unsafe { libc::dlopen(owner.name().as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    assert!(!owner.is_null());
    let [old, used] = [(); 2].map(|()| Slot::new());
    for slot in [&old, &used] {
        slot.life(|| ());
        assert_eq!(slot.renew(), Renewed::Reset);
    }
    let user = Module::load(&user);
    // In a block that has not been renewed since, they are zeros.
    used.with(|| assert_eq!((user.bump)(), 1));
    let new = Slot::new();
    for slot in [&old, &used] {
        assert_eq!(slot.renew(), Renewed::Rebuilt);
    }
    for slot in [&old, &used, &new] {
        for _ in 0..3 {
            slot.life(|| user.is_fresh());
            assert_eq!(slot.renew(), Renewed::Reset);
        }
    }
}

/// The allocator's cache and the like stay with the block when the loader makes its thread-locals again.
#[test]
fn modules_that_come_and_go_leak_nothing() {
    if !alone("modules::modules_that_come_and_go_leak_nothing") {
        return;
    }
    let Some(path) = compile("guest", "global-dynamic") else { return };
    let slot = Slot::new();
    let round = || {
        let module = Module::load(&path);
        assert_eq!(slot.renew(), Renewed::Rebuilt);
        slot.life(|| {
            module.is_fresh();
            drop(std::hint::black_box(vec![1_u8; 500]));
        });
        drop(module);
        assert_eq!(slot.renew(), Renewed::Rebuilt);
        slot.life(|| drop(std::hint::black_box(vec![1_u8; 500])));
        slot.renew();
    };
    (0..200).for_each(|_| round());
    let (before, tables) = (in_use(), glibc().modules.tables());
    (0..2000).for_each(|_| round());
    assert_eq!(glibc().modules.tables(), tables, "one table for each set of modules");
    let grown = in_use().saturating_sub(before);
    assert!(grown < 4096, "{grown} bytes more after 2000 rounds");
}
