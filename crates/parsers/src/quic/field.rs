//! Fields specific to the parser.

tuple::fields! {
    SNI: Text, None, "sni", "server name sent by the client (SNI), in lower case";
    ALPN_OFFERED: Text, None, "alpn_offered", "application protocols offered by the client (ALPN), separated by commas; the server's choice is encrypted";
    VERSION: Text, None, "version", "QUIC version in use: v1 or v2";
    VERSION_OFFERED: Text, None, "version_offered", "QUIC version of the client's first packet";
    CIPHER: Text, None, "cipher", "negotiated cipher suite by its IANA name, or its number";
    HANDSHAKE_TIME: I64, Nanoseconds, "handshake_time_ns", "from the client's first packet to its first packet with 1-RTT protection, which follows its Finished";
    RESPONSE_TIME: I64, Nanoseconds, "response_time_ns", "from the packet that completes the ClientHello to the server's first packet that answers it; an acknowledgment alone is no answer";
    RESUMED: Bool, None, "resumed", "whether the handshake uses a pre-shared key";
    EARLY_DATA: Bool, None, "early_data", "whether the client sent 0-RTT packets";
    RETRY: Bool, None, "retry", "whether the server sent a Retry, which validates the client's address and takes one round trip";
    HELLO_RETRY: Bool, None, "hello_retry", "whether the server requested another ClientHello";
    RETRANSMISSIONS: U64, None, "retransmissions", "number of times that the client repeated the start of its ClientHello";
    ERROR: Text, None, "error", "error code of a CONNECTION_CLOSE in an Initial packet, by its name in RFC 9000; CRYPTO_ERROR is followed by the TLS alert";
    ERROR_BY: Text, None, "error_by", "sender of the error: client or server";
    CONNECTION_ID: Text, None, "connection_id", "destination connection ID of the client's first packet, in hexadecimal, by which qlog files name a connection";
}
