//! Columns that the queries of a connection need, and the variants of the parser.

use super::fields;
use super::streams::part;
use crate::http::fields::{self as http_fields, OF_HTTP};
use crate::http::headers::{HeaderNames, RequestedHeaders};
use crate::{ColumnSet, ParserOutput};

/// Variant: every stream.
pub const HTTP2: u8 = 2;
/// Variant: gRPC only.
pub const GRPC: u8 = 3;
/// Variants with the fields of `http2`.
const OF_HTTP2: [u8; 2] = [HTTP2, GRPC];

/// Requirements of the queries, computed once per connection.
#[derive(Debug)]
pub struct Http2Projection {
    pub columns: ColumnSet,
    /// Columns of `http2` and `grpc`.
    pub own: ColumnSet,
    /// Whether messages of gRPC are counted.
    pub counts_messages: bool,
    /// Which texts are needed, by their [`part`].
    pub texts: [bool; part::COUNT],
    /// Whether a query names header fields.
    pub names_fields: bool,
    /// Named header fields of `http`, and of `http2`.
    pub named: [RequestedHeaders; 2],
}

impl Http2Projection {
    pub fn new(out: &ParserOutput<'_>) -> Http2Projection {
        let columns = out.columns();
        let own = out.columns_of(OF_HTTP2);
        let has_grpc = out.has_variant(GRPC);
        let named = [OF_HTTP, OF_HTTP2].map(|variants| {
            RequestedHeaders::of(out, variants)
                .map_or_else(RequestedHeaders::default, |named| *named)
        });
        let mut texts = [false; part::COUNT];
        let any = |ids: &[tuple::FieldId]| columns.has_any(ColumnSet::of(ids));
        texts[part::METHOD] = any(&[http_fields::METHOD]);
        texts[part::HOST] = any(&[http_fields::HOST, http_fields::URL]);
        texts[part::AUTHORITY] = texts[part::HOST] || own.has(fields::AUTHORITY);
        texts[part::SCHEME] = own.has(fields::SCHEME);
        texts[part::TARGET] = any(&[
            http_fields::PATH,
            http_fields::URL,
            http_fields::URL_QUERY,
            http_fields::URL_TEMPLATE,
        ]) || own.has(fields::GRPC_SERVICE)
            || own.has(fields::GRPC_METHOD);
        texts[part::USER_AGENT] = any(&[http_fields::USER_AGENT]);
        texts[part::CONTENT_TYPE] = any(&[http_fields::CONTENT_TYPE]);
        texts[part::GRPC_STATUS] = own.has(fields::GRPC_STATUS);
        texts[part::GRPC_MESSAGE] = own.has(fields::GRPC_MESSAGE);
        let of_body = [
            fields::REQUEST_MESSAGES,
            fields::RESPONSE_MESSAGES,
            fields::GRPC_STATUS,
            fields::GRPC_MESSAGE,
        ];
        Http2Projection {
            columns,
            own,
            counts_messages: has_grpc || own.has_any(ColumnSet::of(&of_body)),
            texts,
            names_fields: named.iter().any(|named| !named.is_empty()),
            named,
        }
    }

    /// Named fields of requests, or of responses, for `http` and for `http2`.
    pub fn names_in(&self, request: bool) -> [&HeaderNames; 2] {
        self.named.each_ref().map(|named| {
            if request {
                &named.request
            } else {
                &named.response
            }
        })
    }
}
