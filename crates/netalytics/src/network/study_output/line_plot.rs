//! Line plots with error bars (SVG).

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A plot.
pub struct LinePlot {
    /// Title.
    pub title: String,
    /// Label of the horizontal axis.
    pub x: String,
    /// Label of the vertical axis.
    pub y: String,
    /// Lines.
    pub lines: Vec<PlotLine>,
}

/// A line.
pub struct PlotLine {
    /// Name in the legend.
    pub name: String,
    /// Color: red, green, blue.
    pub color: (u8, u8, u8),
    /// Stroke.
    pub stroke: LineStroke,
    /// Points: x, mean of y, deviation of y.
    pub points: Vec<(f64, f64, f64)>,
}

/// Stroke of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStroke {
    /// Solid.
    Solid,
    /// Dashed.
    Dashed,
}

const SIZE: (u32, u32) = (860, 420);
/// Horizontal position of the legend.
const LEGEND_X: i32 = 560;
const LEGEND_LINE: i32 = 22;
const FONT: &str = "sans-serif";
const GRAY: RGBColor = RGBColor(0x5f, 0x63, 0x68);

/// Draws the plot as SVG.
pub fn draw(picture: &LinePlot) -> anyhow::Result<String> {
    let mut svg = String::new();
    drawn(picture, &mut svg)
        .map_err(|error| anyhow!("cannot draw {:?}: {error}", picture.title))?;
    Ok(svg)
}

fn drawn(picture: &LinePlot, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(LEGEND_X);
    let points = || picture.lines.iter().flat_map(|line| &line.points);
    let right_end = points().map(|point| point.0).fold(1e-9, f64::max);
    let top = points().map(|point| point.1 + point.2).fold(1e-9, f64::max) * 1.05;
    let mut chart = ChartBuilder::on(&left)
        .caption(&picture.title, (FONT, 17).into_font().color(&BLACK))
        .margin(10)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..right_end * 1.02, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .axis_style(GRAY)
        .label_style((FONT, 13).into_font().color(&GRAY))
        .axis_desc_style((FONT, 14).into_font().color(&BLACK))
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .x_desc(&picture.x)
        .y_desc(&picture.y)
        .draw()?;
    for line in &picture.lines {
        let color = line.color();
        let style = color.stroke_width(2);
        let means: Vec<(f64, f64)> = line.points.iter().map(|(x, mean, _)| (*x, *mean)).collect();
        match line.stroke {
            LineStroke::Solid => chart.draw_series(LineSeries::new(means, style))?,
            LineStroke::Dashed => chart.draw_series(DashedLineSeries::new(means, 6, 4, style))?,
        };
        let bar = |(x, mean, deviation): &(f64, f64, f64)| {
            ErrorBar::new_vertical(
                *x,
                (mean - deviation).max(0.0),
                *mean,
                mean + deviation,
                color.filled(),
                7,
            )
        };
        chart.draw_series(line.points.iter().map(bar))?;
    }
    legend(picture, &right)?;
    root.present()?;
    Ok(())
}

fn legend(
    picture: &LinePlot,
    area: &DrawingArea<SVGBackend<'_>, Shift>,
) -> Result<(), Box<dyn std::error::Error>> {
    let style = (FONT, 13)
        .into_font()
        .color(&BLACK)
        .pos(Pos::new(HPos::Left, VPos::Center));
    for (nth, line) in (0..).zip(&picture.lines) {
        let y = 50 + nth * LEGEND_LINE;
        let ends = [(4, y), (34, y)];
        let color = line.color().stroke_width(2);
        match line.stroke {
            LineStroke::Solid => area.draw(&PathElement::new(ends, color))?,
            LineStroke::Dashed => area.draw(&DashedPathElement::new(ends, 6, 4, color))?,
        }
        area.draw(&Text::new(line.name.clone(), (42, y), style.clone()))?;
    }
    let below = 50 + picture.lines.len() as i32 * LEGEND_LINE;
    area.draw(&Text::new(
        "bars: standard deviation of the runs",
        (4, below),
        style.color(&GRAY),
    ))?;
    Ok(())
}

impl PlotLine {
    fn color(&self) -> RGBColor {
        let (red, green, blue) = self.color;
        RGBColor(red, green, blue)
    }
}

/// Formats an axis label.
fn short(number: f64) -> String {
    if number.fract().abs() < 1e-9 {
        format!("{number:.0}")
    } else {
        format!("{number:.1}")
    }
}
