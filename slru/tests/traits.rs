//! What the types are, checked when compiled.

use slru::{
    FileStore, FixedStatusLog, LogFirst, Lsn, MemoryStore, NoStore, Status, StatusError, StatusLog,
    StatusStore, StoreError,
};
use static_assertions::{assert_eq_size, assert_impl_all, assert_obj_safe};

assert_impl_all!(StatusLog<MemoryStore>: Send, Sync, core::fmt::Debug);
assert_impl_all!(StatusLog<FileStore>: Send, Sync);
assert_impl_all!(FixedStatusLog<NoStore, 4>: Send, Sync);
assert_impl_all!(LogFirst<NoStore, fn(Lsn) -> Result<(), StoreError>>: slru::PageStore);
assert_impl_all!(StatusError: core::error::Error, Clone, Send, Sync);
assert_obj_safe!(StatusStore);
// A look-up's result travels in registers.
assert_eq_size!(StatusError, usize);
assert_eq_size!(Result<Status, StatusError>, [usize; 2]);

#[test]
fn the_numbers_of_statuses_are_those_on_disk() {
    let numbers = [
        Status::InProgress,
        Status::Committed,
        Status::Aborted,
        Status::SubCommitted,
    ]
    .map(|s| s as u8);
    assert_eq!(numbers, [0, 1, 2, 3]);
}
