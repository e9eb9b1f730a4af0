//! The behaviours of `common`, of the front in two sizes and, with the feature `baselines`, of the baselines.

use snapmap::SnapMap;

#[macro_use]
mod common;

suite!(front, SnapMap);
#[test]
fn off() {
    common::ages::nothing_is_refused_and_nobody_asked(&SnapMap::off());
}

suite!(front_of_few_places, SnapMap<8>);

#[cfg(feature = "baselines")]
mod baselines {
    use snapmap::baseline::{LockEveryMinute, LockEverySnapshot};

    use super::common;

    #[test]
    fn off() {
        common::ages::nothing_is_refused_and_nobody_asked(&LockEverySnapshot::off());
        common::ages::nothing_is_refused_and_nobody_asked(&LockEveryMinute::off());
    }

    suite!(lock_every_snapshot, LockEverySnapshot);
    suite!(lock_every_minute, LockEveryMinute);
}
