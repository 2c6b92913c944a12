//! The server over real sockets, with the embedded model.

mod answers;
mod client;
mod faults;
mod load;
mod server;
