//! The record of a training run, from which the terminal output, the JSON and the page are made.

use serde::Serialize;

/// The digits 0 to 9.
pub const CLASSES: usize = 10;

/// A finished training run.
#[derive(Clone, Debug, Serialize)]
pub struct History {
    pub version: String,
    pub backend: String,
    pub backend_version: String,
    pub threads: usize,
    pub seed: u64,
    /// The network, one line for each layer.
    pub network: Vec<String>,
    pub parameters: usize,
    /// Optimiser and schedule, in a few words.
    pub optimizer: String,
    pub batch: usize,
    pub train_rows: usize,
    pub test_rows: usize,
    pub epochs: Vec<Epoch>,
    /// The loss of each step.
    pub losses: Vec<f64>,
    /// The confusion matrix of the test digits: `confusion[label][guess]`.
    pub confusion: [[u32; CLASSES]; CLASSES],
    /// Some of the misclassified test digits.
    pub misread: Vec<Misread>,
    /// Wall-clock time of the training.
    pub seconds: f64,
}

/// One pass through the training data.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Epoch {
    pub loss: f64,
    /// Accuracies are fractions between 0 and 1.
    pub train_accuracy: f64,
    pub test_accuracy: f64,
    pub seconds: f64,
}

/// A misclassified test digit.
#[derive(Clone, Debug, Serialize)]
pub struct Misread {
    /// Its row in the data, from 1.
    pub row: usize,
    /// 8 rows of 8 pixels, 0 to 16.
    pub pixels: Vec<u8>,
    pub label: u8,
    pub guess: u8,
    /// The probability of the guess.
    pub confidence: f64,
}

impl History {
    pub fn series(&self, value: impl Fn(&Epoch) -> f64) -> Vec<f64> {
        self.epochs.iter().map(value).collect()
    }

    /// Accuracy on the test digits after the last epoch.
    pub fn test_accuracy(&self) -> Option<f64> {
        self.epochs.last().map(|epoch| epoch.test_accuracy)
    }

    /// Number of correctly classified test digits, and of all.
    pub fn test_score(&self) -> (u32, u32) {
        let right = (0..CLASSES).map(|i| self.confusion[i][i]).sum();
        (right, self.confusion.iter().flatten().sum())
    }
}

#[cfg(test)]
impl History {
    /// A synthetic run for tests.
    pub fn sample(epochs: usize) -> Self {
        let mut confusion = [[0; CLASSES]; CLASSES];
        for (label, row) in confusion.iter_mut().enumerate() {
            row[label] = 36;
        }
        let misses: [(u8, u8); 8] = [
            (8, 1),
            (9, 3),
            (3, 9),
            (1, 8),
            (8, 1),
            (5, 9),
            (7, 4),
            (9, 5),
        ];
        let mut misread = Vec::new();
        for (index, &(label, guess)) in misses.iter().enumerate() {
            confusion[usize::from(label)][usize::from(label)] -= 1;
            confusion[usize::from(label)][usize::from(guess)] += 1;
            misread.push(Misread {
                row: 101 + 37 * index,
                pixels: super::digits::Digits::built_in()
                    .map(|digits| digits.pixels(101 + 37 * index).to_vec())
                    .expect("the built-in digits are whole"),
                label,
                guess,
                confidence: 0.52 + 0.05 * index as f64,
            });
        }
        let epoch = |index: usize| {
            let left = (-0.45 * (index + 1) as f64).exp();
            Epoch {
                loss: 2.3 * left + 0.03,
                train_accuracy: 0.995 - 0.6 * left,
                test_accuracy: 352.0 / 360.0 - if index + 1 == epochs { 0.0 } else { 0.7 * left },
                seconds: 0.8,
            }
        };
        History {
            version: "0.1.0".into(),
            backend: "native".into(),
            backend_version: "0.1.0".into(),
            threads: 2,
            seed: 0,
            network: vec![
                "convolution 3×3, 1 → 16, relu".into(),
                "max pooling 2×2".into(),
                "convolution 3×3, 16 → 32, relu".into(),
                "max pooling 2×2".into(),
                "dropout 0.25".into(),
                "linear 128 → 10".into(),
            ],
            parameters: 6_090,
            optimizer: "Adam, learning rate 0.002".into(),
            batch: 32,
            train_rows: 1437,
            test_rows: 360,
            epochs: (0..epochs).map(epoch).collect(),
            losses: (0..23 * epochs)
                .map(|i| 2.3 * (-0.02 * i as f64).exp())
                .collect(),
            confusion,
            misread,
            seconds: 0.8 * epochs as f64,
        }
    }
}
