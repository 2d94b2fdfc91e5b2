//! Depthwise convolution kernels for 3×3 windows with stride 1.
//!
//! A sum takes nine elements, of which only three are new when the window advances: each element is read once and added
//! to the sums that use it. The sums, the weights and the last elements read stay in registers, which takes thirty-two
//! of them.
#![allow(unsafe_code)]
// Counted loops: see `conv_kernel.rs`.
#![allow(clippy::needless_range_loop)]

use super::{Level, level};

/// Elements per vector: the fewest channels (NHWC) or columns (NCHW).
pub(crate) const VECTOR: usize = 16;

/// The side length of the window.
pub(crate) const SIDE: usize = 3;

/// Whether the machine has enough registers.
pub(crate) fn has_depthwise_3x3() -> bool {
    cfg!(target_arch = "x86_64") && level() == Level::Avx512
}

/// Rows of images in NHWC layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelRows<'a> {
    pub x: &'a [f32],
    pub channels: usize,
    /// Positions along a row of the input and of the result.
    pub width: usize,
    pub positions: usize,
    /// Zero padding before a row, one at most; the same holds behind it.
    pub lo: usize,
}

impl ChannelRows<'_> {
    /// Panics unless rows that begin there lie in the input and are wide enough.
    fn check(&self, rows: &[Option<usize>]) {
        let row = self.width * self.channels;
        assert!(
            has_depthwise_3x3() && self.channels >= VECTOR && self.lo <= 1 && self.positions > 0
        );
        assert!((self.width..=self.width + 1).contains(&(self.positions + 2 - self.lo)));
        assert!(
            rows.iter()
                .flatten()
                .all(|&start| start + row <= self.x.len())
        );
    }
}

/// Two neighbouring rows of a result. `rows` are the starts of the input rows under them, `next` those of the rows that
/// are read next; a row in the padding has none. `taps` are `[tap][channel]`.
pub(crate) fn depthwise_rows_nhwc(
    job: ChannelRows<'_>,
    rows: [Option<usize>; 4],
    next: [Option<usize>; 2],
    taps: &[f32],
    out: [&mut [f32]; 2],
) {
    job.check(&rows);
    job.check(&next);
    assert!(taps.len() >= SIDE * SIDE * job.channels);
    assert!(
        out.iter()
            .all(|out| out.len() >= job.positions * job.channels)
    );
    #[cfg(target_arch = "x86_64")]
    // SAFETY: rows, weights and results lie in their slices, and the machine has the features.
    unsafe {
        x86::channels(job, rows, next, taps.as_ptr(), out.map(<[f32]>::as_mut_ptr));
    }
}

/// Weight gradient of one row: adds the products of a row `y` of the output gradient with the input rows under its
/// windows to `sums`, which are `[tap][channel]`.
pub(crate) fn depthwise_wgrad_nhwc(
    job: ChannelRows<'_>,
    rows: &[([Option<usize>; 3], usize)],
    y: &[f32],
    sums: &mut [f32],
) {
    let row = job.positions * job.channels;
    for (reads, start) in rows {
        job.check(reads);
        assert!(start + row <= y.len());
    }
    assert!(sums.len() >= SIDE * SIDE * job.channels && job.channels.is_multiple_of(VECTOR));
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        x86::wgrad_rows(job, rows, y.as_ptr(), sums.as_mut_ptr());
    }
}

/// A plane (one channel of one image, NCHW) with contiguous rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaneRows<'a> {
    pub x: &'a [f32],
    /// The start of the plane and its row stride.
    pub start: usize,
    pub row: usize,
    pub height: usize,
    pub width: usize,
    /// Columns of the result.
    pub positions: usize,
    /// Zero padding before the first row and the first column, one at most; the same holds behind the last column.
    pub lo: [usize; 2],
}

impl PlaneRows<'_> {
    /// Whether the plane lies in its slice, with the padding described above.
    fn holds(&self) -> bool {
        let last = self.start + self.height.saturating_sub(1) * self.row + self.width;
        let covers = (self.width..=self.width + 1).contains(&(self.positions + 2 - self.lo[1]));
        let inside = self.row >= self.width && last <= self.x.len();
        covers && inside && self.lo.iter().all(|&lo| lo <= 1)
    }
}

/// Rows `first..` of the result, as many as `out` holds.
pub(crate) fn depthwise_rows_nchw(
    job: PlaneRows<'_>,
    taps: &[f32; SIDE * SIDE],
    first: usize,
    out: &mut [f32],
) {
    assert!(has_depthwise_3x3() && job.positions >= VECTOR && job.holds());
    assert!(out.len().is_multiple_of(job.positions));
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the plane lies in its slice, the result holds whole rows, and the machine has the features.
    unsafe {
        x86::plane(job, taps, first, out);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (taps, first, out);
}

/// Weight gradient of one plane: adds the products of a plane with the output gradient, whose contiguous rows begin at
/// `positions.1` with stride `positions.2`, to the nine `sums`. `next` are the distances to the planes that follow, for
/// prefetching.
pub(crate) fn depthwise_wgrad_nchw(
    job: PlaneRows<'_>,
    positions: (&[f32], usize, usize),
    rows: usize,
    next: [usize; 2],
    sums: &mut [f32; SIDE * SIDE],
) {
    let (y, start, step) = positions;
    assert!(has_depthwise_3x3() && job.holds() && rows > 0 && step >= job.positions);
    assert!(start + (rows - 1) * step + job.positions <= y.len());
    #[cfg(target_arch = "x86_64")]
    // SAFETY: both planes lie in their slices, and the machine has the features.
    unsafe {
        let y = y.as_ptr().add(start);
        x86::wgrad_plane(job, (y, step, rows), next, sums);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (next, sums);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{ChannelRows, PlaneRows, SIDE, VECTOR};
    use std::arch::x86_64::*;

    /// The row that is read in the padding.
    static ZEROS: [f32; VECTOR] = [0.0; VECTOR];

    /// The start of a row, and the stride of its positions.
    fn row(job: &ChannelRows<'_>, start: Option<usize>, channel: usize) -> (*const f32, usize) {
        match start {
            Some(start) => (job.x.as_ptr().wrapping_add(start + channel), job.channels),
            None => (ZEROS.as_ptr(), 0),
        }
    }

    /// # Safety
    /// The CPU has these features; the job was checked, the weights and both rows of the result are valid.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi2")]
    pub(super) unsafe fn channels(
        job: ChannelRows<'_>,
        rows: [Option<usize>; 4],
        next: [Option<usize>; 2],
        taps: *const f32,
        out: [*mut f32; 2],
    ) {
        for block in 0..job.channels.div_ceil(VECTOR) {
            // The last block overlaps its neighbour instead of being short.
            let channel = (block * VECTOR).min(job.channels - VECTOR);
            // SAFETY: sixteen channels from here on are those of the caller's promise.
            unsafe {
                let mut w = [[_mm512_setzero_ps(); SIDE]; SIDE];
                for ky in 0..SIDE {
                    for kx in 0..SIDE {
                        let tap = (ky * SIDE + kx) * job.channels + channel;
                        w[ky][kx] = _mm512_loadu_ps(taps.add(tap));
                    }
                }
                let mut from = rows.map(|start| row(&job, start, channel));
                let mut soon = next.map(|start| row(&job, start, channel));
                let mut to = out.map(|out| out.add(channel));
                // Sums of the positions for which the current column is the last, the middle and the first one.
                let mut sums = [[_mm512_setzero_ps(); SIDE]; 2];
                for column in 0..job.positions + 2 {
                    let inside = column.wrapping_sub(job.lo) < job.width;
                    if inside {
                        let mut v = [_mm512_setzero_ps(); 4];
                        for r in 0..4 {
                            v[r] = _mm512_loadu_ps(from[r].0);
                            from[r].0 = from[r].0.wrapping_add(from[r].1);
                        }
                        for ky in 0..SIDE {
                            for kx in 0..SIDE {
                                for s in 0..2 {
                                    let sum = &mut sums[s][2 - kx];
                                    *sum = _mm512_fmadd_ps(v[s + ky], w[ky][kx], *sum);
                                }
                            }
                        }
                        for r in 0..2 {
                            _mm_prefetch::<_MM_HINT_T0>(soon[r].0.cast());
                            soon[r].0 = soon[r].0.wrapping_add(soon[r].1);
                        }
                    }
                    for s in 0..2 {
                        if column >= 2 {
                            _mm512_storeu_ps(to[s], sums[s][0]);
                            to[s] = to[s].wrapping_add(job.channels);
                        }
                        sums[s] = [sums[s][1], sums[s][2], _mm512_setzero_ps()];
                    }
                }
            }
        }
    }

    /// # Safety
    /// The CPU has these features; the job was checked, rows of `y` and all sums are valid.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi2")]
    pub(super) unsafe fn wgrad_rows(
        job: ChannelRows<'_>,
        rows: &[([Option<usize>; 3], usize)],
        y: *const f32,
        sums: *mut f32,
    ) {
        for channel in (0..job.channels - job.channels % VECTOR).step_by(VECTOR) {
            // SAFETY: sixteen channels from here on are those of the caller's promise.
            unsafe {
                let at = |ky: usize, kx: usize| sums.add((ky * SIDE + kx) * job.channels + channel);
                let mut held = [[_mm512_setzero_ps(); SIDE]; SIDE];
                for ky in 0..SIDE {
                    for kx in 0..SIDE {
                        held[ky][kx] = _mm512_loadu_ps(at(ky, kx));
                    }
                }
                for (reads, start) in rows {
                    let mut from = reads.map(|start| row(&job, start, channel));
                    let mut y = y.add(start + channel);
                    // The three columns under the window.
                    let mut v = [[_mm512_setzero_ps(); SIDE]; SIDE];
                    for column in 0..job.positions + 2 {
                        let inside = column.wrapping_sub(job.lo) < job.width;
                        for ky in 0..SIDE {
                            v[ky][2] = _mm512_setzero_ps();
                            if inside {
                                v[ky][2] = _mm512_loadu_ps(from[ky].0);
                                from[ky].0 = from[ky].0.wrapping_add(from[ky].1);
                            }
                        }
                        if column >= 2 {
                            let one = _mm512_loadu_ps(y);
                            y = y.wrapping_add(job.channels);
                            for ky in 0..SIDE {
                                for kx in 0..SIDE {
                                    held[ky][kx] = _mm512_fmadd_ps(v[ky][kx], one, held[ky][kx]);
                                }
                            }
                        }
                        for ky in 0..SIDE {
                            v[ky] = [v[ky][1], v[ky][2], v[ky][2]];
                        }
                    }
                }
                for ky in 0..SIDE {
                    for kx in 0..SIDE {
                        _mm512_storeu_ps(at(ky, kx), held[ky][kx]);
                    }
                }
            }
        }
    }

    /// Vectors of columns that are processed together down a plane.
    const COLUMN_VECTORS: usize = 4;

    /// # Safety
    /// The CPU has these features; the job was checked, and `out` holds whole rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi2")]
    pub(super) unsafe fn plane(
        job: PlaneRows<'_>,
        taps: &[f32; SIDE * SIDE],
        first: usize,
        out: &mut [f32],
    ) {
        let vectors = job.positions.div_ceil(VECTOR);
        let mut vector = 0;
        while vector < vectors {
            // SAFETY: the caller's promise; these columns are some of the positions.
            unsafe {
                vector += match vectors - vector {
                    COLUMN_VECTORS.. => columns::<COLUMN_VECTORS>(&job, taps, first, out, vector),
                    3 => columns::<3>(&job, taps, first, out, vector),
                    2 => columns::<2>(&job, taps, first, out, vector),
                    _ => columns::<1>(&job, taps, first, out, vector),
                };
            }
        }
    }

    /// The columns of `N` vectors from `vector` on.
    ///
    /// # Safety
    /// As `plane`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi2")]
    unsafe fn columns<const N: usize>(
        job: &PlaneRows<'_>,
        taps: &[f32; SIDE * SIDE],
        first: usize,
        out: &mut [f32],
        vector: usize,
    ) -> usize {
        let [lo_y, lo_x] = job.lo;
        // The last vector overlaps its neighbour instead of being short.
        let mut columns = [0; N];
        for n in 0..N {
            columns[n] = ((vector + n) * VECTOR).min(job.positions - VECTOR);
        }
        // Masks of the lanes that are not padding; only the first and the last vector may have any.
        let inside = |column: usize, kx: usize| -> __mmask16 {
            let lane = |j: usize| (column + j + kx).wrapping_sub(lo_x) < job.width;
            (0..VECTOR).fold(0, |mask, j| mask | u16::from(lane(j)) << j)
        };
        let mut masks = [[0; SIDE]; 2];
        for kx in 0..SIDE {
            masks[0][kx] = inside(columns[0], kx);
            masks[1][kx] = inside(columns[N - 1], kx);
        }
        let w = taps.map(|tap| _mm512_set1_ps(tap));
        let mut sums = [[_mm512_setzero_ps(); SIDE]; N];
        let mut to = out.as_mut_ptr();
        for row in first..first + out.len() / job.positions + 2 {
            let read = row.wrapping_sub(lo_y);
            if read < job.height {
                let start = job.x.as_ptr().wrapping_add(job.start + read * job.row);
                for n in 0..N {
                    for kx in 0..SIDE {
                        let from = start.wrapping_add(columns[n] + kx).wrapping_sub(lo_x);
                        // SAFETY: the lanes of the mask, and all lanes of a vector between two others, are part of the
                        // row.
                        let v = unsafe {
                            if n == 0 {
                                _mm512_maskz_loadu_ps(masks[0][kx], from)
                            } else if n == N - 1 {
                                _mm512_maskz_loadu_ps(masks[1][kx], from)
                            } else {
                                _mm512_loadu_ps(from)
                            }
                        };
                        for ky in 0..SIDE {
                            let sum = &mut sums[n][2 - ky];
                            *sum = _mm512_fmadd_ps(v, w[ky * SIDE + kx], *sum);
                        }
                    }
                }
            }
            for n in 0..N {
                if row >= first + 2 {
                    // SAFETY: `out` holds a row for each but the first two rows here.
                    unsafe { _mm512_storeu_ps(to.add(columns[n]), sums[n][0]) };
                }
                sums[n] = [sums[n][1], sums[n][2], _mm512_setzero_ps()];
            }
            if row >= first + 2 {
                to = to.wrapping_add(job.positions);
            }
        }
        N
    }

    /// # Safety
    /// The CPU has these features; the job was checked, and rows of `y` with this stride and number are readable.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi2")]
    pub(super) unsafe fn wgrad_plane(
        job: PlaneRows<'_>,
        (y, step, rows): (*const f32, usize, usize),
        next: [usize; 2],
        sums: &mut [f32; SIDE * SIDE],
    ) {
        let [lo_y, lo_x] = job.lo;
        let mut held = [[_mm512_setzero_ps(); SIDE]; SIDE];
        for column in (0..job.positions).step_by(VECTOR) {
            // Lanes without a position, and lanes in the padding, contribute nothing.
            let lanes = |fits: &dyn Fn(usize) -> bool| -> __mmask16 {
                (0..VECTOR).fold(0, |mask, j| mask | u16::from(fits(column + j)) << j)
            };
            let own = lanes(&|at| at < job.positions);
            let mut masks = [own; SIDE];
            for kx in 0..SIDE {
                masks[kx] &= lanes(&|at| (at + kx).wrapping_sub(lo_x) < job.width);
            }
            let mut from = y.wrapping_add(column);
            let start = job.x.as_ptr().wrapping_add(job.start + column);
            // The last three rows of positions: the current row is the first, the second and the third one under them.
            let mut one = [_mm512_setzero_ps(); SIDE];
            for row in 0..rows + 2 {
                one = [one[0], one[0], one[1]];
                if row < rows {
                    // SAFETY: the lanes of the mask are part of this row.
                    one[0] = unsafe { _mm512_maskz_loadu_ps(own, from) };
                    _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(next[1]).cast());
                    from = from.wrapping_add(step);
                }
                let read = row.wrapping_sub(lo_y);
                if read >= job.height {
                    continue;
                }
                let x = start.wrapping_add(read * job.row).wrapping_sub(lo_x);
                _mm_prefetch::<_MM_HINT_T0>(x.wrapping_add(next[0]).cast());
                let mut v = [_mm512_setzero_ps(); SIDE];
                for kx in 0..SIDE {
                    // SAFETY: as above.
                    v[kx] = unsafe { _mm512_maskz_loadu_ps(masks[kx], x.wrapping_add(kx)) };
                }
                for ky in 0..SIDE {
                    // Zeros instead of a row would turn infinity into NaN.
                    if row.wrapping_sub(ky) < rows {
                        for kx in 0..SIDE {
                            held[ky][kx] = _mm512_fmadd_ps(v[kx], one[ky], held[ky][kx]);
                        }
                    }
                }
            }
        }
        for ky in 0..SIDE {
            for kx in 0..SIDE {
                sums[ky * SIDE + kx] += _mm512_reduce_add_ps(held[ky][kx]);
            }
        }
    }
}
