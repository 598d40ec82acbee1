//! Impairments as text: a name and an amount, as in `loss-to-server=0.1%`, `delay-2ms=1%`, `skew-to-client=-0.5ms`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use super::{HeaderFieldKind, Impairment, LossPattern, LossTarget, PacketDirection, StraySegment};

impl fmt::Display for Impairment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |p: &f64| format!("{}%", (p * 1e6).round() / 1e4);
        let ms = |ns: &i64| format!("{}ms", *ns as f64 / 1e6);
        match self {
            Impairment::None => write!(f, "none"),
            Impairment::Loss(which, run, p) => {
                write!(f, "{}{}={}", run.name(), which.name(), percent(p))
            }
            Impairment::Duplicates(p) => write!(f, "duplicates={}", percent(p)),
            Impairment::Reorder(p) => write!(f, "reorder={}", percent(p)),
            Impairment::All(p) => write!(f, "all={}", percent(p)),
            Impairment::Joined(p) => write!(f, "joined={}", percent(p)),
            Impairment::OneSide(side) => write!(f, "only{}", side.name()),
            Impairment::Delay(p, by) => write!(f, "delay-{}={}", ms(by), percent(p)),
            Impairment::Skew(side, by) => write!(f, "skew{}={}", side.name(), ms(by)),
            Impairment::Shuffle(by) => write!(f, "shuffle={}", ms(by)),
            Impairment::ClockStep(by) => write!(f, "clock-step={}", ms(by)),
            Impairment::LossyClockStep(by) => write!(f, "lossy-clock-step={}", ms(by)),
            Impairment::Pauses(p, by) => write!(f, "pause-{}={}", ms(by), percent(p)),
            Impairment::Snaplen(len) => write!(f, "snaplen={len}"),
            Impairment::Stray(stray, p) => write!(f, "stray-{}={}", stray.name(), percent(p)),
            Impairment::Header(field, p) => write!(f, "{}={}", field.name(), percent(p)),
            Impairment::MessageLength(p) => write!(f, "message-length={}", percent(p)),
            Impairment::DamagedBit(p) => write!(f, "damaged-bit={}", percent(p)),
            Impairment::Mirrored(by) => write!(f, "mirrored={}", ms(by)),
            Impairment::FastOpen => write!(f, "fast-open"),
        }
    }
}

impl FromStr for Impairment {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Impairment> {
        let (name, amount) = text.split_once('=').unwrap_or((text, ""));
        let percent = || {
            let n: f64 = number(amount, "%")?;
            Ok::<f64, anyhow::Error>(n / 100.0)
        };
        let ms = |text: &str| Ok::<i64, anyhow::Error>((number(text, "ms")? * 1e6) as i64);
        if let Some(by) = name.strip_prefix("delay-") {
            return Ok(Impairment::Delay(percent()?, ms(by)?));
        }
        if let Some(by) = name.strip_prefix("pause-") {
            return Ok(Impairment::Pauses(percent()?, ms(by)?));
        }
        for run in [LossPattern::Single, LossPattern::Bursts] {
            for which in LossTarget::ALL {
                if name == format!("{}{}", run.name(), which.name()) {
                    return Ok(Impairment::Loss(which, run, percent()?));
                }
            }
        }
        Ok(match name {
            "none" => Impairment::None,
            "duplicates" => Impairment::Duplicates(percent()?),
            "reorder" => Impairment::Reorder(percent()?),
            "all" => Impairment::All(percent()?),
            "joined" => Impairment::Joined(percent()?),
            "only-to-server" => Impairment::OneSide(PacketDirection::ToServer),
            "only-to-client" => Impairment::OneSide(PacketDirection::ToClient),
            "skew-to-server" => Impairment::Skew(PacketDirection::ToServer, ms(amount)?),
            "skew-to-client" => Impairment::Skew(PacketDirection::ToClient, ms(amount)?),
            "shuffle" => Impairment::Shuffle(ms(amount)?),
            "clock-step" => Impairment::ClockStep(ms(amount)?),
            "lossy-clock-step" => Impairment::LossyClockStep(ms(amount)?),
            "snaplen" => Impairment::Snaplen(amount.parse().with_context(|| text.to_owned())?),
            "stray-syn" => Impairment::Stray(StraySegment::Syn, percent()?),
            "stray-reset" => Impairment::Stray(StraySegment::Reset, percent()?),
            "stray-data" => Impairment::Stray(StraySegment::Data, percent()?),
            "stray-forged" => Impairment::Stray(StraySegment::Forged, percent()?),
            "acknowledgment" => Impairment::Header(HeaderFieldKind::Acknowledgment, percent()?),
            "ip-length" => Impairment::Header(HeaderFieldKind::Length, percent()?),
            "message-length" => Impairment::MessageLength(percent()?),
            "damaged-bit" => Impairment::DamagedBit(percent()?),
            "mirrored" => Impairment::Mirrored(ms(amount)?),
            "fast-open" => Impairment::FastOpen,
            _ => bail!("unknown impairment {name}"),
        })
    }
}

fn number(text: &str, unit: &str) -> Result<f64> {
    let digits = text
        .strip_suffix(unit)
        .with_context(|| format!("{text}: a number with {unit} is missing"))?;
    digits.parse().with_context(|| text.to_owned())
}

impl LossPattern {
    fn name(self) -> &'static str {
        match self {
            LossPattern::Single => "loss",
            LossPattern::Bursts => "bursts",
        }
    }
}

impl LossTarget {
    const ALL: [LossTarget; 5] = [
        LossTarget::Any,
        LossTarget::Of(PacketDirection::ToServer),
        LossTarget::Of(PacketDirection::ToClient),
        LossTarget::Small,
        LossTarget::Large,
    ];

    fn name(self) -> &'static str {
        match self {
            LossTarget::Any => "",
            LossTarget::Of(side) => side.name(),
            LossTarget::Small => "-small",
            LossTarget::Large => "-large",
        }
    }
}

impl PacketDirection {
    fn name(self) -> &'static str {
        match self {
            PacketDirection::ToServer => "-to-server",
            PacketDirection::ToClient => "-to-client",
        }
    }
}

impl StraySegment {
    fn name(self) -> &'static str {
        match self {
            StraySegment::Syn => "syn",
            StraySegment::Reset => "reset",
            StraySegment::Data => "data",
            StraySegment::Forged => "forged",
        }
    }
}

impl HeaderFieldKind {
    fn name(self) -> &'static str {
        match self {
            HeaderFieldKind::Acknowledgment => "acknowledgment",
            HeaderFieldKind::Length => "ip-length",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impairments_round_trip_as_text() {
        for text in [
            "none",
            "loss=0.1%",
            "bursts-to-server=5%",
            "loss-small=1%",
            "delay-2ms=0.2%",
            "skew-to-client=-0.5ms",
            "clock-step=30ms",
            "snaplen=96",
            "stray-syn=1%",
            "ip-length=1%",
            "damaged-bit=0.5%",
            "mirrored=1ms",
            "fast-open",
        ] {
            let impairment: Impairment = text.parse().expect(text);
            assert_eq!(impairment.to_string(), text);
        }
        assert!("loss".parse::<Impairment>().is_err() && "rain=1%".parse::<Impairment>().is_err());
    }
}
