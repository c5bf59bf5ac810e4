"""What a mirror of whole transactions warns of."""

from pgrelay.spark.mirrors.transaction_warnings import Standstill


def test_a_standstill_is_reported_once() -> None:
    still = Standstill()
    assert [still.to_report(each) for each in [(), (1,), (1,), (1,), (2,), (), (2,), (2,)]] == [
        (),
        (),
        (1,),
        (),
        (),
        (),
        (),
        (2,),
    ]
