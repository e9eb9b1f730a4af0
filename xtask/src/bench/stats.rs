//! What can be said of a few runs.

/// The runs from which on there is a verdict.
pub(crate) const RUNS_FOR_A_VERDICT: usize = 5;

/// The figures of one cell's runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
    pub(crate) runs: usize,
}

impl Spread {
    /// Of `figures`, unless there are none.
    pub(crate) fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let (&low, &high) = (figures.first()?, figures.last()?);
        let middle = figures.len() / 2;
        let median = if figures.len() % 2 == 1 {
            figures[middle]
        } else {
            (figures[middle - 1] + figures[middle]) / 2.0
        };
        Some(Self {
            low,
            median,
            high,
            runs: figures.len(),
        })
    }

    /// What the runs say of this against `base`.
    ///
    /// From five runs each on: a difference, if every run of one is beyond every run of the other. Of two equal things with five runs
    /// each that happens in 2 of 252 orders, less than one comparison in a hundred.
    pub(crate) fn verdict(&self, base: &Self) -> &'static str {
        if self.runs.min(base.runs) < RUNS_FOR_A_VERDICT {
            "not enough runs"
        } else if self.low > base.high {
            "faster"
        } else if self.high < base.low {
            "slower"
        } else {
            "no difference beyond the spread"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    fn spread(figures: &[f64]) -> Spread {
        Spread::of(figures.to_vec()).unwrap()
    }

    #[test]
    fn medians_of_odd_and_even_counts() {
        let odd = spread(&[3.0, 1.0, 2.0]);
        assert_eq!(
            (odd.low, odd.median, odd.high, odd.runs),
            (1.0, 2.0, 3.0, 3)
        );
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn a_verdict_needs_runs_and_distance() {
        let base = spread(&[10.0, 11.0, 12.0, 10.5, 11.5]);
        assert_eq!(
            spread(&[20.0, 21.0, 22.0, 23.0]).verdict(&base),
            "not enough runs"
        );
        assert_eq!(
            spread(&[13.0, 14.0, 15.0, 16.0, 17.0]).verdict(&base),
            "faster"
        );
        assert_eq!(spread(&[5.0, 6.0, 7.0, 8.0, 9.0]).verdict(&base), "slower");
        assert_eq!(
            spread(&[12.0, 14.0, 15.0, 16.0, 17.0]).verdict(&base),
            "no difference beyond the spread"
        );
    }
}
