//! The TLS server: clients that trust its certificate get back what they send.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::Client;
use crate::on_both;
use crate::target::{Target, big};

/// Starts the server. Returns it, and a configuration of clients that trust it.
fn serve(runtime: &str, idle: &str) -> (Target, Arc<ClientConfig>) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("certificate.pem");
    let name = file.to_str().expect("a name of letters");
    let server = Target::start("tls_echo", &["--certificate", name, "--idle", idle], Some(runtime));
    (server, trusting(&file))
}

fn trusting(certificate: &Path) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).expect("a certificate")).expect("a root");
    Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

type Stream = StreamOwned<ClientConnection, std::net::TcpStream>;

fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> Stream {
    let name = "localhost".try_into().expect("a name");
    let connection = ClientConnection::new(Arc::clone(config), name).expect("a client");
    StreamOwned::new(connection, Client::connect(address).stream)
}

fn echo(stream: &mut Stream, bytes: &[u8]) {
    for piece in bytes.chunks(30_011) {
        stream.write_all(piece).expect("a server that reads");
        let mut back = vec![0; piece.len()];
        stream.read_exact(&mut back).expect("all bytes");
        assert!(back == piece, "the bytes differ");
    }
}

#[test]
fn several_clients_get_back_what_they_send() {
    on_both("TLS", |runtime| {
        let (server, config) = serve(runtime, "60000");
        let bytes = big(200_000);
        thread::scope(|scope| {
            for number in 0..8 {
                let (config, bytes, address) = (&config, &bytes, server.address);
                scope.spawn(move || {
                    let mut stream = connect(address, config);
                    echo(&mut stream, &bytes[number..]);
                    // The server answers the end with its own: without it, the read would fail.
                    stream.conn.send_close_notify();
                    stream.flush().expect("a server that reads");
                    assert_eq!(stream.read(&mut [0; 9]).expect("a clean end"), 0);
                });
            }
        });
    });
}

#[test]
fn clients_that_speak_otherwise_do_no_harm() {
    on_both("no TLS", |runtime| {
        let (server, config) = serve(runtime, "500");
        // Another server's certificate.
        let (_other, wrong) = serve(runtime, "500");
        let error = connect(server.address, &wrong).write_all(b"hello").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        let mut plain = Client::connect(server.address);
        plain.send("GET / HTTP/1.1\r\nHost: here\r\n\r\n");
        // An alert, and the end.
        let mut said = Vec::new();
        let _ = plain.stream.read_to_end(&mut said);
        assert_eq!(said.first(), Some(&21), "{said:?}");
        // One that says nothing is given up.
        Client::connect(server.address).expect_end();
        echo(&mut connect(server.address, &config), b"hello");
    });
}
