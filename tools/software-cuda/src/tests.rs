//! Kernels as a compiler writes them.

use crate::block::{Fault, Launch, run};
use crate::memory::Memory;
use crate::ptx::kernels;

/// Device memory that is given back.
struct Buffer {
    first: u64,
    values: usize,
}

impl Buffer {
    fn of(values: &[u32]) -> Self {
        let first = Memory::lock().allocate(4 * values.len() as u64, u64::MAX).unwrap();
        // SAFETY: there is room for them.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), first as *mut u32, values.len()) };
        Self { first, values: values.len() }
    }

    fn read(&self) -> Vec<u32> {
        // SAFETY: so many were allocated.
        unsafe { std::slice::from_raw_parts(self.first as *const u32, self.values) }.to_vec()
    }

    fn floats(&self) -> Vec<f32> {
        self.read().into_iter().map(f32::from_bits).collect()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        Memory::lock().free(self.first);
    }
}

/// A kernel of one or two pointers.
fn module(pointers: usize, code: &str) -> String {
    let params: Vec<String> = (0..pointers).map(|i| format!(".param .u64 f_{i}")).collect();
    format!(
        ".version 9.0\n.target sm_90a\n.visible .entry f({})\n{{\n.reg .pred %p<9>;\n.reg .b16 %rs<9>;\n\
         .reg .f32 %f<20>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<20>;\n{code}\n}}\n",
        params.join(",\n")
    )
}

fn launched(text: &str, grid: u32, threads: u32, shared: usize, buffers: &[&Buffer]) -> Result<(), Fault> {
    let kernels = kernels(text).unwrap();
    let params = buffers.iter().map(|buffer| buffer.first).collect();
    run(&kernels["f"], &Launch { grid: [grid, 1, 1], threads: [threads, 1, 1], shared, params })
}

/// `%rd2` points to this thread's number of the first buffer, `%r1` is the thread's number in the grid.
const OWN: &str = "ld.param.u64 %rd1, [f_0];\nmov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\n\
                   mad.lo.s32 %r1, %r2, %r3, %r4;\nmul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd2, %rd1, %rd3;\n";

#[test]
fn every_thread_has_its_own_number() {
    let buffer = Buffer::of(&[7; 80]);
    let text = module(
        1,
        &format!("{OWN}ld.global.u32 %r5, [%rd2];\nadd.s32 %r6, %r5, %r1;\nst.global.u32 [%rd2], %r6;\nret;"),
    );
    launched(&text, 2, 40, 0, &[&buffer]).unwrap();
    assert_eq!(buffer.read(), (7..87).collect::<Vec<u32>>());
}

#[test]
fn threads_that_branch_apart_meet_again() {
    // Each thread counts to its own number, then all exchange what they have.
    let code = "mov.u32 %r5, 0;\n$L1:\nsetp.ge.u32 %p1, %r5, %r1;\n@%p1 bra $L2;\nadd.s32 %r5, %r5, 1;\nbra.uni $L1;\n\
                $L2:\nmov.u32 %r7, 31;\nmov.u32 %r8, -1;\nshfl.sync.bfly.b32 %r6|%p2, %r5, 1, %r7, %r8;\n\
                st.global.u32 [%rd2], %r6;\nret;";
    let buffer = Buffer::of(&[0; 32]);
    launched(&module(1, &format!("{OWN}{code}")), 1, 32, 0, &[&buffer]).unwrap();
    assert_eq!(buffer.read(), (0..32).map(|i| i ^ 1).collect::<Vec<u32>>());
}

#[test]
fn warps_wait_for_each_other() {
    // Written by one warp, read by another; shared memory of the kernel and of the launch.
    let code = ".shared .align 4 .b8 own[256];\nmov.u32 %r5, own;\nmov.u32 %r15, more;\nshl.b32 %r6, %r4, 2;\n\
                add.s32 %r7, %r5, %r6;\nadd.s32 %r17, %r15, %r6;\nst.shared.u32 [%r7], %r4;\nst.shared.u32 [%r17], %r4;\n\
                bar.sync 0;\nmov.u32 %r8, 63;\nsub.s32 %r9, %r8, %r4;\nshl.b32 %r10, %r9, 2;\nadd.s32 %r11, %r5, %r10;\n\
                add.s32 %r21, %r15, %r10;\nld.shared.u32 %r12, [%r11];\nld.shared.u32 %r22, [%r21];\n\
                add.s32 %r23, %r12, %r22;\nst.global.u32 [%rd2], %r23;\nret;";
    let text = format!(".extern .shared .align 16 .b8 more[];\n{}", module(1, &format!("{OWN}{code}")));
    let buffer = Buffer::of(&[0; 64]);
    launched(&text, 1, 64, 256, &[&buffer]).unwrap();
    assert_eq!(buffer.read(), (0..64).map(|i| 2 * (63 - i)).collect::<Vec<u32>>());
}

#[test]
fn a_warp_comes_to_a_barrier_as_a_whole() {
    // What the first thread does lies behind the barrier in the code, and is read after it.
    let code = ".shared .align 4 .b8 s[4];\nsetp.eq.s32 %p1, %r4, 0;\n@%p1 bra $FIRST;\n$JOIN:\nbar.sync 0;\n\
                ld.shared.u32 %r5, [s];\nst.global.u32 [%rd2], %r5;\nret;\n\
                $FIRST:\nmov.u32 %r6, 9;\nst.shared.u32 [s], %r6;\nbra.uni $JOIN;";
    let buffer = Buffer::of(&[0; 40]);
    launched(&module(1, &format!("{OWN}{code}")), 1, 40, 0, &[&buffer]).unwrap();
    assert_eq!(buffer.read(), [9; 40]);
}

#[test]
fn all_threads_add_to_one_number() {
    let buffer = Buffer::of(&[0; 1]);
    let code = "ld.param.u64 %rd1, [f_0];\nmov.f32 %f1, 0f3F000000;\nred.global.add.f32 [%rd1], %f1;\nret;";
    launched(&module(1, code), 3, 50, 0, &[&buffer]).unwrap();
    assert_eq!(buffer.floats(), [75.0]);
}

#[test]
fn a_number_outside_memory_is_found() {
    let buffer = Buffer::of(&[0; 32]);
    let text = module(1, &format!("{OWN}st.global.u32 [%rd2+131072], %r1;\nret;"));
    let Err(Fault(reason)) = launched(&text, 1, 32, 0, &[&buffer]) else { panic!("it was not seen") };
    assert!(reason.contains("where there is no memory") && reason.contains("st.global.u32"), "{reason}");
    let text = module(1, &format!("{OWN}ld.shared.u32 %r5, [%r1];\nret;"));
    assert!(launched(&text, 1, 32, 0, &[&buffer]).is_err());
    let text = module(1, &format!("{OWN}st.global.v2.u32 [%rd1+4], {{%r1, %r1}};\nret;"));
    let Err(Fault(reason)) = launched(&text, 1, 1, 0, &[&buffer]) else { panic!("it was not seen") };
    assert!(reason.contains("not aligned"), "{reason}");
}

#[test]
fn what_is_not_known_is_refused() {
    let found = kernels(&module(1, "wgmma.fence.sync.aligned;\nret;")).unwrap_err();
    assert_eq!(found.0, "wgmma.fence.sync.aligned");
}

/// Bits of half precision of small whole numbers.
fn half(value: usize) -> u32 {
    u32::from(half::f16::from_f32(value as f32).to_bits())
}

#[test]
fn small_matrices_are_multiplied() {
    // 16 × 16 by 16 × 16, as `wmma` has it, through memory.
    let a: Vec<u32> = (0..128).map(|i| half(2 * i % 7) | half((2 * i + 1) % 7) << 16).collect();
    let b: Vec<u32> = (0..128).map(|i| half(2 * i % 5) | half((2 * i + 1) % 5) << 16).collect();
    let factors = Buffer::of(&[a, b].concat());
    let result = Buffer::of(&[0; 256]);
    let code = "ld.param.u64 %rd1, [f_0];\nld.param.u64 %rd2, [f_1];\nmov.u32 %r1, 16;\nmov.f32 %f0, 0f00000000;\n\
        wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r2,%r3,%r4,%r5,%r6,%r7,%r8,%r9}, [%rd1], %r1;\n\
        wmma.load.b.sync.aligned.col.m16n16k16.global.f16 {%r12,%r13,%r14,%r15,%r16,%r17,%r18,%r19}, [%rd1+512], %r1;\n\
        wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, \
        {%r2,%r3,%r4,%r5,%r6,%r7,%r8,%r9}, {%r12,%r13,%r14,%r15,%r16,%r17,%r18,%r19}, {%f0,%f0,%f0,%f0,%f0,%f0,%f0,%f0};\n\
        wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd2], {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, %r1;\nret;";
    launched(&module(2, code), 1, 32, 0, &[&factors, &result]).unwrap();
    let expected = (0..256).map(|at| {
        let (row, column) = (at / 16, at % 16);
        (0..16).map(|k| ((row * 16 + k) % 7 * ((column * 16 + k) % 5)) as f32).sum::<f32>()
    });
    assert_eq!(result.floats(), expected.collect::<Vec<f32>>());
}

#[test]
fn rows_from_shared_memory_go_into_products() {
    // The first factor through `ldmatrix`, the second one through its transposing form.
    let a: Vec<u32> = (0..128).map(|i| half(2 * i % 7) | half((2 * i + 1) % 7) << 16).collect();
    let b: Vec<u32> = (0..64).map(|i| half(2 * i % 5) | half((2 * i + 1) % 5) << 16).collect();
    let factors = Buffer::of(&[a, b].concat());
    let result = Buffer::of(&[0; 128]);
    // Each of 32 threads copies 24 bytes; rows of the first factor are 32 bytes, of the second one 16.
    let code = ".shared .align 16 .b8 s[768];\nld.param.u64 %rd1, [f_0];\nld.param.u64 %rd2, [f_1];\nmov.u32 %r1, %tid.x;\n\
        mov.u32 %r2, s;\nmul.lo.s32 %r3, %r1, 8;\nadd.s32 %r4, %r2, %r3;\nmul.wide.u32 %rd3, %r1, 8;\nadd.s64 %rd4, %rd1, %rd3;\n\
        cp.async.ca.shared.global [%r4], [%rd4], 8;\ncp.async.ca.shared.global [%r4+256], [%rd4+256], 8;\n\
        cp.async.ca.shared.global [%r4+512], [%rd4+512], 8;\ncp.async.wait_all;\nbar.sync 0;\n\
        and.b32 %r5, %r1, 15;\nshl.b32 %r6, %r5, 5;\nshr.u32 %r7, %r1, 4;\nshl.b32 %r8, %r7, 4;\nadd.s32 %r9, %r6, %r8;\n\
        add.s32 %r10, %r2, %r9;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r11,%r12,%r13,%r14}, [%r10];\n\
        shl.b32 %r15, %r5, 4;\nadd.s32 %r16, %r2, %r15;\n\
        ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r17,%r18}, [%r16+512];\nmov.f32 %f0, 0f00000000;\n\
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r11,%r12,%r13,%r14}, {%r17,%r18}, {%f0,%f0,%f0,%f0};\n\
        shr.u32 %r20, %r1, 2;\nand.b32 %r21, %r1, 3;\nshl.b32 %r22, %r20, 5;\nshl.b32 %r23, %r21, 3;\nadd.s32 %r24, %r22, %r23;\n\
        cvt.u64.u32 %rd5, %r24;\nadd.s64 %rd6, %rd2, %rd5;\nst.global.v2.f32 [%rd6], {%f1,%f2};\n\
        st.global.v2.f32 [%rd6+256], {%f3,%f4};\nret;";
    launched(&module(2, code), 1, 32, 0, &[&factors, &result]).unwrap();
    let expected = (0..128).map(|at| {
        let (row, column) = (at / 8, at % 8);
        (0..16).map(|k| ((row * 16 + k) % 7 * ((k * 8 + column) % 5)) as f32).sum::<f32>()
    });
    assert_eq!(result.floats(), expected.collect::<Vec<f32>>());
}
