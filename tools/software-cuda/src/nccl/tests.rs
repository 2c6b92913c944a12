//! Tests of `nccl`.

use super::*;

#[test]
fn members_add_up_in_threads_of_their_own() {
    let mut id = Id([0; 16]);
    // SAFETY: both are there.
    assert_eq!(unsafe { ncclGetUniqueId(&mut id) }, SUCCESS);
    let sums: Vec<f32> = std::thread::scope(|scope| {
        let member = |rank: c_int| {
            scope.spawn(move || {
                let buffer = Memory::lock().allocate(4, u64::MAX).unwrap();
                let mut member = std::ptr::null_mut();
                // SAFETY: the buffer holds one number.
                unsafe {
                    *(buffer as *mut f32) = 1.0 + rank as f32;
                    assert_eq!(ncclCommInitRank(&mut member, 3, id, rank), SUCCESS);
                    assert_eq!(ncclAllReduce(buffer, buffer, 1, 7, 0, member, 0), SUCCESS);
                    assert_eq!(ncclAllReduce(buffer, buffer, 1, 7, 4, member, 0), SUCCESS);
                    ncclCommDestroy(member);
                    let sum = *(buffer as *const f32);
                    Memory::lock().free(buffer);
                    sum
                }
            })
        };
        let members: Vec<_> = (0..3).map(member).collect();
        members.into_iter().map(|member| member.join().unwrap()).collect()
    });
    assert_eq!(sums, [6.0; 3]);
}

#[test]
fn what_is_sent_comes_in_its_order() {
    let mut id = Id([0; 16]);
    // SAFETY: it is there.
    assert_eq!(unsafe { ncclGetUniqueId(&mut id) }, SUCCESS);
    let member = |rank: c_int| {
        let buffer = Memory::lock().allocate(8, u64::MAX).unwrap();
        let mut member = std::ptr::null_mut();
        // SAFETY: the buffer holds two numbers.
        unsafe {
            assert_eq!(ncclCommInitRank(&mut member, 2, id, rank), SUCCESS);
            *(buffer as *mut [f32; 2]) = [1.0, 2.0];
            if rank == 0 {
                assert_eq!(ncclSend(buffer, 1, 7, 1, member, 0), SUCCESS);
                assert_eq!(ncclSend(buffer + 4, 1, 7, 1, member, 0), SUCCESS);
                assert_eq!(ncclSend(buffer, 1, 7, 2, member, 0), INVALID_ARGUMENT);
            } else {
                assert_eq!(ncclRecv(buffer + 4, 1, 7, 0, member, 0), SUCCESS);
                assert_eq!(ncclRecv(buffer, 1, 7, 0, member, 0), SUCCESS);
            }
            let held = *(buffer as *const [f32; 2]);
            ncclCommDestroy(member);
            Memory::lock().free(buffer);
            held
        }
    };
    let received = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| member(1));
        scope.spawn(|| member(0)).join().unwrap();
        receiver.join().unwrap()
    });
    assert_eq!(received, [2.0, 1.0]);
}
