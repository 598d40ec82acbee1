//! The only unsafe code of this crate: passes many records to librdkafka in one call, for which rdkafka has no
//! function. With single records, each call looks the topic up by name under a lock of the client and reads two clocks.

#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::ptr;

use rdkafka::bindings::{
    RD_KAFKA_MSG_F_COPY, rd_kafka_message_t, rd_kafka_produce_batch, rd_kafka_resp_err_t,
    rd_kafka_topic_destroy, rd_kafka_topic_new,
};
use rdkafka::producer::{Producer, ProducerContext, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;

/// Passes records without keys to a partition, in order, and returns the result of each: `None` if it was accepted and
/// will be reported with `opaque`.
pub fn produce<'a, C: ProducerContext<DeliveryOpaque = usize>>(
    producer: &ThreadedProducer<C>,
    topic: &str,
    partition: i32,
    opaque: usize,
    payloads: impl Iterator<Item = &'a [u8]>,
) -> Vec<Option<RDKafkaErrorCode>> {
    let message = |payload: &[u8]| rd_kafka_message_t {
        err: rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR,
        rkt: ptr::null_mut(),
        partition,
        // Only read: the client copies the payload.
        payload: payload.as_ptr().cast_mut().cast::<c_void>(),
        len: payload.len(),
        key: ptr::null_mut(),
        key_len: 0,
        offset: 0,
        _private: ptr::without_provenance_mut(opaque),
    };
    let mut messages: Vec<rd_kafka_message_t> = payloads.map(message).collect();
    let refused = |messages: &[_]| vec![Some(RDKafkaErrorCode::InvalidTopic); messages.len()];
    let Ok(topic) = CString::new(topic) else {
        return refused(&messages);
    };
    let client = producer.client().native_ptr();
    // SAFETY: the client lives as long as `producer`, which is borrowed. The topic belongs to the client and is
    // released before it. The messages match the given count and point at payloads that live as long as `messages`;
    // librdkafka copies them, as its flag requests, keeps no pointer to them, and writes only `err`. The value returned
    // with each is a number, which this producer's context expects.
    unsafe {
        let topic = rd_kafka_topic_new(client, topic.as_ptr(), ptr::null_mut());
        if topic.is_null() {
            return refused(&messages);
        }
        let flags = RD_KAFKA_MSG_F_COPY;
        rd_kafka_produce_batch(
            topic,
            partition,
            flags,
            messages.as_mut_ptr(),
            messages.len() as i32,
        );
        rd_kafka_topic_destroy(topic);
    }
    let outcome = |message: &rd_kafka_message_t| match RDKafkaErrorCode::from(message.err) {
        RDKafkaErrorCode::NoError => None,
        error => Some(error),
    };
    messages.iter().map(outcome).collect()
}
