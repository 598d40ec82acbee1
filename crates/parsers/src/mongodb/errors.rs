//! Names of error codes, for errors that state only the code ("error_codes.yml" in the server's sources).

const NAMES: &[(i64, &str)] = &[
    (1, "InternalError"),
    (2, "BadValue"),
    (6, "HostUnreachable"),
    (7, "HostNotFound"),
    (9, "FailedToParse"),
    (11, "UserNotFound"),
    (13, "Unauthorized"),
    (14, "TypeMismatch"),
    (18, "AuthenticationFailed"),
    (20, "IllegalOperation"),
    (26, "NamespaceNotFound"),
    (27, "IndexNotFound"),
    (40, "ConflictingUpdateOperators"),
    (43, "CursorNotFound"),
    (48, "NamespaceExists"),
    (50, "MaxTimeMSExpired"),
    (59, "CommandNotFound"),
    (64, "WriteConcernTimeout"),
    (66, "ImmutableField"),
    (79, "UnknownReplWriteConcern"),
    (85, "IndexOptionsConflict"),
    (86, "IndexKeySpecsConflict"),
    (89, "NetworkTimeout"),
    (91, "ShutdownInProgress"),
    (100, "UnsatisfiableWriteConcern"),
    (112, "WriteConflict"),
    (121, "DocumentValidationFailure"),
    (133, "FailedToSatisfyReadPreference"),
    (189, "PrimarySteppedDown"),
    (251, "NoSuchTransaction"),
    (262, "ExceededTimeLimit"),
    (10107, "NotWritablePrimary"),
    (11000, "DuplicateKey"),
    (11600, "InterruptedAtShutdown"),
    (11601, "Interrupted"),
    (11602, "InterruptedDueToReplStateChange"),
    (13435, "NotPrimaryNoSecondaryOk"),
    (13436, "NotPrimaryOrSecondary"),
];

/// Name of a code.
pub fn name(code: i64) -> Option<&'static str> {
    let at = NAMES.binary_search_by_key(&code, |(code, _)| *code).ok()?;
    Some(NAMES[at].1)
}
