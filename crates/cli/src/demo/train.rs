//! The network and its training.

use super::digits::Digits;
use super::history::{CLASSES, Epoch, History, Misread};
use super::progress::Progress;
use crate::error::{Error, Result};
use clematis as cm;
use cm::nn::{Adam, Conv2d, Dropout, Linear, Module, Optimizer};
use cm::{Key, Tensor, Tree};
use std::time::Instant;

/// Default number of epochs.
pub const EPOCHS: usize = 20;
const BATCH: usize = 64;
/// One digit in five is used for testing.
const TEST_SHARE: usize = 5;
/// Number of misclassified digits that are shown.
const SHOWN: usize = 12;
const SIDE: usize = 8;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub epochs: usize,
    pub backend: String,
    /// `None` for all cores.
    pub threads: Option<usize>,
}

/// Two convolutions, a pooling, two linear layers.
#[derive(Clone, Tree)]
#[tree(crate = "clematis")]
struct Net {
    conv1: Conv2d,
    conv2: Conv2d,
    hidden: Linear,
    out: Linear,
}

const DROP_FEATURES: Dropout = Dropout { rate: 0.25 };
const DROP_HIDDEN: Dropout = Dropout { rate: 0.5 };

impl Net {
    const LINES: [&str; 6] = [
        "conv 3x3, 1 to 32 channels, relu",
        "conv 3x3, 32 to 64 channels, relu",
        "max pool 2x2, dropout 0.25",
        "linear, 1024 to 128, relu",
        "dropout 0.5",
        "linear, 128 to 10",
    ];

    fn new(key: &Key) -> cm::Result<Net> {
        let keys = key.split_n(4);
        Ok(Net {
            conv1: Conv2d::new(1, 32, [3, 3], &keys[0])?,
            conv2: Conv2d::new(32, 64, [3, 3], &keys[1])?,
            hidden: Linear::new(SIDE / 2 * SIDE / 2 * 64, 128, &keys[2])?,
            out: Linear::new(128, CLASSES, &keys[3])?,
        })
    }

    /// Computes logits; applies dropout if there is a key.
    fn forward(&self, x: &Tensor, key: Option<&Key>) -> cm::Result<Tensor> {
        let keys = key.map(Key::split);
        let x = cm::relu(self.conv1.forward(x)?).done()?;
        let x = cm::relu(self.conv2.forward(&x)?).done()?;
        let x = cm::max_pool(&x, &[2, 2], &[2, 2], &cm::Padding::Valid, true).done()?;
        let x = DROP_FEATURES.forward(&x, keys.as_ref().map(|k| &k.0))?;
        let x = cm::relu(self.hidden.forward(&cm::flatten(&x, 1).done()?)?).done()?;
        let x = DROP_HIDDEN.forward(&x, keys.as_ref().map(|k| &k.1))?;
        self.out.forward(&x)
    }
}

/// Images, labels, and the row of each in the data.
struct Part {
    images: Tensor,
    labels: Tensor,
    rows: Vec<usize>,
}

impl Part {
    fn new(digits: &Digits, rows: Vec<usize>) -> cm::Result<Part> {
        let pixels: Vec<f32> = rows
            .iter()
            .flat_map(|&row| digits.pixels(row))
            .map(|&p| f32::from(p) / 16.0)
            .collect();
        let labels: Vec<i64> = rows
            .iter()
            .map(|&row| i64::from(digits.labels()[row]))
            .collect();
        Ok(Part {
            images: cm::from_slice(&pixels, [rows.len(), SIDE, SIDE, 1])?,
            labels: cm::from_slice(&labels, [rows.len()])?,
            rows,
        })
    }

    /// Selects rows by index.
    fn pick(&self, at: &Tensor) -> cm::Result<(Tensor, Tensor)> {
        Ok((
            cm::take(&self.images, at, 0).done()?,
            cm::take(&self.labels, at, 0).done()?,
        ))
    }
}

/// Splits off a random fifth of the rows, determined by the key, for testing.
fn split(digits: &Digits, key: &Key) -> cm::Result<(Part, Part)> {
    let order = cm::random::permutation(key, digits.len())
        .done()?
        .to_vec::<i64>()?;
    let mut order: Vec<usize> = order.into_iter().map(|i| i as usize).collect();
    let test = order.split_off(digits.len() - digits.len() / TEST_SHARE);
    Ok((Part::new(digits, order)?, Part::new(digits, test)?))
}

/// Predicted classes and their probabilities.
fn read(net: &Net, images: &Tensor) -> cm::Result<(Vec<i64>, Vec<f32>)> {
    let chances = cm::softmax(net.forward(images, None)?, -1).done()?;
    Ok((
        cm::argmax(&chances, Some(-1)).done()?.to_vec()?,
        cm::max(&chances, -1).done()?.to_vec()?,
    ))
}

fn accuracy(net: &Net, part: &Part) -> cm::Result<f64> {
    let (guesses, _) = read(net, &part.images)?;
    let labels = part.labels.to_vec::<i64>()?;
    let right = guesses.iter().zip(&labels).filter(|(a, b)| a == b).count();
    Ok(right as f64 / labels.len().max(1) as f64)
}

/// Trains on the digits and returns the history.
pub fn train(digits: &Digits, options: &Options, progress: &Progress) -> Result<History> {
    cm::native::parallel::set_thread_limit(options.threads);
    let backend = cm::backend::find(&options.backend).map_err(Error::from_engine)?;
    cm::backend::with(backend, || {
        // A framework is loaded on first use, which must not count as training time.
        cm::zeros([1], cm::DType::F32).done()?;
        run(digits, options, progress)
    })
    .map_err(Error::from_engine)
}

fn run(digits: &Digits, options: &Options, progress: &Progress) -> cm::Result<History> {
    let began = Instant::now();
    let keys = Key::new(options.seed).split_n(4);
    let (train, test) = split(digits, &keys[0])?;
    let mut net = Net::new(&keys[1])?;
    let adam = Adam::new(1e-3);
    let mut state = adam.init(&net)?;
    let batches = train.rows.len().div_ceil(BATCH);
    progress.start((options.epochs * batches) as u64);
    let (mut epochs, mut losses) = (Vec::new(), Vec::new());
    for epoch in 0..options.epochs {
        let start = Instant::now();
        let order =
            cm::random::permutation(&keys[2].fold_in(epoch as u64), train.rows.len()).done()?;
        let (mut loss, mut right) = (0.0, 0.0);
        for batch in 0..batches {
            let from = batch * BATCH;
            let to = (from + BATCH).min(train.rows.len());
            let at = cm::slice_axis(&order, 0, from, to).done()?;
            let (x, y) = train.pick(&at)?;
            let key = keys[3].fold_in((epoch * batches + batch) as u64);
            let step = cm::value_and_grad_aux(|net: &Net| {
                let logits = net.forward(&x, Some(&key))?;
                let hits = cm::equal(cm::argmax(&logits, Some(-1)), &y);
                let right = cm::sum(cm::cast(hits, cm::DType::F32), ..).done()?;
                Ok((cm::mean(cm::cross_entropy(&logits, &y), ..).done()?, right))
            });
            let ((value, hits), grads) = step(&net)?;
            adam.step(&mut net, &grads, &mut state)?;
            let value = value.item()?.as_f64();
            losses.push(value);
            loss += value * (to - from) as f64;
            right += hits.item()?.as_f64();
            progress.step();
        }
        let rows = train.rows.len().max(1) as f64;
        let done = Epoch {
            loss: loss / rows,
            train_accuracy: right / rows,
            test_accuracy: accuracy(&net, &test)?,
            seconds: start.elapsed().as_secs_f64(),
        };
        progress.epoch(epoch, &done);
        epochs.push(done);
    }
    let (confusion, misread) = examine(&net, digits, &test)?;
    Ok(History {
        version: env!("CARGO_PKG_VERSION").into(),
        backend: options.backend.clone(),
        backend_version: cm::backend::current()?.version(),
        threads: cm::native::parallel::threads(),
        seed: options.seed,
        network: Net::LINES.iter().map(|&line| line.into()).collect(),
        parameters: cm::nn::parameter_count(&net),
        optimizer: format!("Adam, step {}", adam.lr),
        batch: BATCH,
        train_rows: train.rows.len(),
        test_rows: test.rows.len(),
        epochs,
        losses,
        confusion,
        misread,
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// The confusion matrix of the test digits, and the misclassified ones with the highest confidence.
fn examine(
    net: &Net,
    digits: &Digits,
    test: &Part,
) -> cm::Result<([[u32; CLASSES]; CLASSES], Vec<Misread>)> {
    let (guesses, chances) = read(net, &test.images)?;
    let mut confusion = [[0; CLASSES]; CLASSES];
    let mut misread = Vec::new();
    for ((&row, &guess), &confidence) in test.rows.iter().zip(&guesses).zip(&chances) {
        let label = digits.labels()[row];
        confusion[usize::from(label)][guess as usize] += 1;
        if i64::from(label) != guess {
            misread.push(Misread {
                row: row + 1,
                pixels: digits.pixels(row).to_vec(),
                label,
                guess: guess as u8,
                confidence: f64::from(confidence),
            });
        }
    }
    misread.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    misread.truncate(SHOWN);
    Ok((confusion, misread))
}
