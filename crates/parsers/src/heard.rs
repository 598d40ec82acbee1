//! Which answer can be to which question, by TCP's acknowledgment numbers: they tell what each side had heard of the other
//! when it spoke. That holds whatever a capture lacks, and in whatever order it has its packets.

use flow::Place;

/// What an answer is to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It cannot be the answer: who asked had already heard it, or who answered had not heard the question.
    Impossible,
    /// It is what the asker heard next.
    Next,
    /// The asker heard something else before it.
    Later,
}

/// What an answer that begins at `answer` is to a question that begins at `question`.
#[inline]
#[must_use]
pub fn fit(question: Place, answer: Place) -> Fit {
    let unheard = answer.ack.is_some_and(|ack| ack.distance(question.seq) <= 0);
    let Some(heard) = question.ack else { return Fit::Later };
    match answer.seq.distance(heard) {
        _ if unheard => Fit::Impossible,
        ..0 => Fit::Impossible,
        0 => Fit::Next,
        _ => Fit::Later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::TcpSeq;

    fn check(question: (u32, u32), answer: (u32, u32), expected: Fit) {
        let place = |(seq, ack)| Place { seq: TcpSeq(seq), ack: Some(TcpSeq(ack)) };
        assert_eq!(fit(place(question), place(answer)), expected, "{question:?} {answer:?}");
    }

    #[test]
    fn who_had_heard_what() {
        check((100, 500), (500, 150), Fit::Next);
        check((100, 500), (600, 150), Fit::Later);
        check((100, 500), (499, 150), Fit::Impossible);
        check((100, 500), (500, 100), Fit::Impossible);
        check((u32::MAX - 9, u32::MAX - 4), (u32::MAX - 4, 90), Fit::Next);
        check((u32::MAX - 9, u32::MAX - 4), (3, 90), Fit::Later);
    }
}
