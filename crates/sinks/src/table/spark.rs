//! Numbers as bars of one character each: `▂▄█▁ ▃`.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar for each value, on a scale from zero to the maximum; blank for no value, the lowest bar for values of at most
/// zero.
#[must_use]
pub fn sparkline(values: &[Option<f64>]) -> String {
    let largest = values.iter().flatten().copied().fold(0.0, f64::max);
    let bar = |value: f64| match value / largest {
        share if share > 0.0 => BARS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1],
        _ => BARS[0],
    };
    values.iter().map(|value| value.map_or(' ', bar)).collect()
}

/// A horizontal bar: `share` of `width` characters, in eighths.
#[must_use]
pub fn lying(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    // A positive value is never shown as empty.
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars() {
        for (values, expected) in [
            (
                &[Some(1.0), Some(8.0), None, Some(4.0), Some(0.0)][..],
                "▁█ ▄▁",
            ),
            (&[Some(0.0), Some(0.0)], "▁▁"),
            (&[Some(-3.0), Some(2.0)], "▁█"),
            (&[], ""),
        ] {
            assert_eq!(sparkline(values), expected);
        }
        for (share, expected) in [
            (0.0, ""),
            (1e-9, "▏"),
            (0.5, "██"),
            (0.53, "██▏"),
            (1.0, "████"),
        ] {
            assert_eq!(lying(share, 4), expected, "{share}");
        }
    }
}
