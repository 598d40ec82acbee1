//! Fields specific to the parser.

tuple::fields! {
    SNI: Text, None, "sni", "server name sent by the client (SNI), in lower case";
    VERSION: Text, None, "version", "negotiated version: TLS 1.3, TLS 1.2, ..., SSL 3.0";
    CIPHER: Text, None, "cipher", "negotiated cipher suite by its IANA name, or its number";
    ALPN: Text, None, "alpn", "application protocol chosen by the server (ALPN); null from TLS 1.3 on, where it is encrypted";
    HANDSHAKE_TIME: I64, Nanoseconds, "handshake_time_ns", "from the first byte of the ClientHello until the client may send data: the last byte of the server's Finished, in TLS 1.3 the first byte of the client's";
    RESPONSE_TIME: I64, Nanoseconds, "response_time_ns", "from the last byte of the ClientHello to the first byte of the server's response";
    RESUMED: Bool, None, "resumed", "whether the handshake resumes a session or uses a pre-shared key";
    ALERT: Text, None, "alert", "first alert: handshake_failure, unknown_ca, ...; encrypted if only its length is known";
    ALERT_LEVEL: Text, None, "alert_level", "warning or fatal; null if it is encrypted";
    ALERT_BY: Text, None, "alert_by", "sender of the alert: client or server";
    CERTIFICATE_SUBJECT: Text, None, "certificate_subject", "common name of the server's certificate; null from TLS 1.3 on";
    CERTIFICATE_NAMES: Text, None, "certificate_names", "alternative names and addresses of the certificate, separated by commas";
    CERTIFICATE_ISSUER: Text, None, "certificate_issuer", "issuer of the certificate: common name, otherwise organization";
    CERTIFICATE_NOT_AFTER: I64, EpochNanoseconds, "certificate_not_after", "end of the certificate's validity";
    CLIENT_CERTIFICATE: Bool, None, "client_certificate", "whether the client sent a certificate; null from TLS 1.3 on";
    ALPN_OFFERED: Text, None, "alpn_offered", "application protocols offered by the client (ALPN), separated by commas";
    VERSION_OFFERED: Text, None, "version_offered", "highest version offered by the client";
    HELLO_RETRY: Bool, None, "hello_retry", "whether the server requested another ClientHello";
}
