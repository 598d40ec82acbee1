//! The complete data path against captures with independent truth: other projects' files and recordings of real
//! servers, read from `../shared/data` next to the checkout.

mod accounting;
mod applications;
mod cassandra;
mod clock;
mod damage;
mod dns;
mod flows;
mod forms;
mod frames;
mod http;
mod http2;
mod idle;
mod invariance;
mod kafka;
mod live_clock;
mod loss;
mod memcached;
mod mongodb;
mod mysql;
mod nfs;
mod outstanding;
mod ports;
mod postgresql;
mod proxied;
mod quic;
mod recognized;
mod redis;
mod roles;
mod support;
mod taps;
mod tls;
mod tls_keys;
mod tunnels;
mod workers;
