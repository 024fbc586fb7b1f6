pub(crate) mod tls;
pub use tls::ThreadRegister;
