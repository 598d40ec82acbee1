//! Impairments as text: a name and an amount, as in `loss-to-server=0.1%`, `delay-2ms=1%`, `skew-to-client=-0.5ms`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use super::{Field, Impairment, Run, Side, Stray, Which};

impl fmt::Display for Impairment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |p: &f64| format!("{}%", (p * 1e6).round() / 1e4);
        let ms = |ns: &i64| format!("{}ms", *ns as f64 / 1e6);
        match self {
            Impairment::None => write!(f, "none"),
            Impairment::Loss(which, run, p) => write!(f, "{}{}={}", run.name(), which.name(), percent(p)),
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
        for run in [Run::Single, Run::Bursts] {
            for which in Which::ALL {
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
            "only-to-server" => Impairment::OneSide(Side::ToServer),
            "only-to-client" => Impairment::OneSide(Side::ToClient),
            "skew-to-server" => Impairment::Skew(Side::ToServer, ms(amount)?),
            "skew-to-client" => Impairment::Skew(Side::ToClient, ms(amount)?),
            "shuffle" => Impairment::Shuffle(ms(amount)?),
            "clock-step" => Impairment::ClockStep(ms(amount)?),
            "lossy-clock-step" => Impairment::LossyClockStep(ms(amount)?),
            "snaplen" => Impairment::Snaplen(amount.parse().with_context(|| text.to_owned())?),
            "stray-syn" => Impairment::Stray(Stray::Syn, percent()?),
            "stray-reset" => Impairment::Stray(Stray::Reset, percent()?),
            "stray-data" => Impairment::Stray(Stray::Data, percent()?),
            "stray-forged" => Impairment::Stray(Stray::Forged, percent()?),
            "acknowledgment" => Impairment::Header(Field::Acknowledgment, percent()?),
            "ip-length" => Impairment::Header(Field::Length, percent()?),
            "message-length" => Impairment::MessageLength(percent()?),
            "mirrored" => Impairment::Mirrored(ms(amount)?),
            "fast-open" => Impairment::FastOpen,
            _ => bail!("no impairment is called {name}"),
        })
    }
}

fn number(text: &str, unit: &str) -> Result<f64> {
    let digits =
        text.strip_suffix(unit).with_context(|| format!("{text}: a number with {unit} is missing"))?;
    digits.parse().with_context(|| text.to_owned())
}

impl Run {
    fn name(self) -> &'static str {
        match self {
            Run::Single => "loss",
            Run::Bursts => "bursts",
        }
    }
}

impl Which {
    const ALL: [Which; 5] =
        [Which::Any, Which::Of(Side::ToServer), Which::Of(Side::ToClient), Which::Small, Which::Large];

    fn name(self) -> &'static str {
        match self {
            Which::Any => "",
            Which::Of(side) => side.name(),
            Which::Small => "-small",
            Which::Large => "-large",
        }
    }
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::ToServer => "-to-server",
            Side::ToClient => "-to-client",
        }
    }
}

impl Stray {
    fn name(self) -> &'static str {
        match self {
            Stray::Syn => "syn",
            Stray::Reset => "reset",
            Stray::Data => "data",
            Stray::Forged => "forged",
        }
    }
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Field::Acknowledgment => "acknowledgment",
            Field::Length => "ip-length",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
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
            "mirrored=1ms",
            "fast-open",
        ] {
            let impairment: Impairment = text.parse().expect(text);
            assert_eq!(impairment.to_string(), text);
        }
        assert!("loss".parse::<Impairment>().is_err() && "rain=1%".parse::<Impairment>().is_err());
    }
}
