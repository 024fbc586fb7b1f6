//! rustls over sockets of std, both ends in green threads.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use harness::{HOPS, crew};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use selvedge::thread;

const CLIENTS: usize = 6;

/// Returns how both ends are set up: the server has a certificate, which the client trusts.
fn set_up() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".into()]).expect("a certificate");
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a certificate");
    let server = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key);
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    (Arc::new(server.expect("a key that fits")), Arc::new(client))
}

fn each_client_gets_back_what_it_sent() -> usize {
    let (server, client) = set_up();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let acceptor = thread::spawn(move || {
        let echoes: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (stream, _) = listener.accept().expect("a connection");
                let server = Arc::clone(&server);
                thread::spawn(move || {
                    let connection = ServerConnection::new(server).expect("a connection");
                    let mut tls = StreamOwned::new(connection, stream);
                    let mut bytes = [0; 1_000];
                    // Until the client says that it has no more.
                    while let Ok(len @ 1..) = tls.read(&mut bytes) {
                        tls.write_all(&bytes[..len]).expect("the client waits");
                        tls.flush().expect("the client waits");
                    }
                })
            })
            .collect();
        echoes.into_iter().for_each(|it| it.join().expect("no panic"));
    });
    let migrations = crew(CLIENTS, move |member| {
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::clone(&client), name).expect("a connection");
        let mut tls = StreamOwned::new(connection, TcpStream::connect(address).expect("the server"));
        for round in 0..HOPS / 4 {
            let sent = vec![(member.index() * 16 + round % 16) as u8; 1 + 37 * round % 3_000];
            let mut back = vec![0; sent.len()];
            member.across(|| {
                tls.write_all(&sent).expect("the server reads");
                tls.flush().expect("the server reads");
                tls.read_exact(&mut back).expect("the server answers");
            });
            assert_eq!(back, sent);
            member.hop();
        }
        tls.conn.send_close_notify();
        tls.flush().expect("the server reads");
    });
    acceptor.join().expect("no panic");
    migrations
}

harness::on_every_runtime!(each_client_gets_back_what_it_sent);
