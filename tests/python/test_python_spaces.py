"""hutch.gym.spaces: they behave as those of Gymnasium, compared with the real ones, and by themselves."""
import textwrap

PAIRS = textwrap.dedent("""
    import numpy, gymnasium.spaces as theirs
    from gymnasium.vector.utils import batch_space as their_batch
    import hutch.gym.spaces as ours
    pairs = [
        (ours.Discrete(5), theirs.Discrete(5)), (ours.Discrete(3, start=-1), theirs.Discrete(3, start=-1)),
        (ours.MultiDiscrete([2, 3, 1]), theirs.MultiDiscrete([2, 3, 1])),
        (ours.MultiDiscrete([[2, 3], [4, 5]]), theirs.MultiDiscrete([[2, 3], [4, 5]])),
        (ours.Text(4), theirs.Text(4)), (ours.Text(3, min_length=0, charset="ab"), theirs.Text(3, min_length=0, charset="ab")),
        (ours.Tuple([ours.Discrete(2), ours.Text(2)]), theirs.Tuple([theirs.Discrete(2), theirs.Text(2)])),
    ]
    pairs += [(ours.batch_space(mine, 3), their_batch(his, 3)) for mine, his in pairs if not isinstance(mine, ours.Tuple)
              and getattr(mine, "start", 0) == 0]
""")


def test_the_same_values_are_in(gymnasium):
    gymnasium.run(PAIRS + textwrap.dedent("""
        values = [-2, -1, 0, 2, 4, 5, numpy.int64(4), numpy.int64(5), 1.0, "1", None, "", "ab", "abcd", "abcde", "a-b", (0, "a"), (0, ""),
                  (2, "a"), (0,), [0, 2, 0], (1, 2, 0), (2, 0, 0), (0, 0), [[1, 2], [3, 4]], [[1, 2], [3, 5]], [[1, 2]], [1.0, 0.0, 0.0],
                  numpy.array([1, 2, 0]), numpy.array([1, 3, 0]), ((1, 2, 0), (0, 0, 0), (0, 1, 0)), (0, 1, 2), ("a", "b", "ab"), {}]
        for mine, his in pairs:
            assert mine.shape == his.shape, (mine, his)
            for value in values:
                assert (value in mine) == (value in his), (mine, value)
    """))


def test_samples_seeds_and_equality(gymnasium):
    gymnasium.run(PAIRS + textwrap.dedent("""
        for mine, his in pairs:
            for space in (mine, his):
                space.seed(7)
                first = [space.sample() for _ in range(30)]
                space.seed(7)
                assert str([space.sample() for _ in range(30)]) == str(first), space
                assert all(one in space for one in first)
        for place, (mine, his) in enumerate(pairs):
            for other, (my_other, his_other) in enumerate(pairs):
                assert (mine == my_other) == (his == his_other), (mine, my_other)
    """))


def test_masks(python):
    python.run("""
        from hutch.gym.spaces import Discrete, MultiDiscrete
        space = Discrete(4, seed=1)
        assert {space.sample(mask=(0, 1, 0, 1)) for _ in range(50)} == {1, 3}
        assert space.sample(mask=(0, 0, 0, 0)) == 0
        assert {space.sample(probability=(0, 0, 1.0, 0)) for _ in range(20)} == {2}
        pair = MultiDiscrete([2, 3], seed=1)
        assert {pair.sample(mask=((0, 1), (1, 0, 1))) for _ in range(60)} == {(1, 0), (1, 2)}
        for wrong in (lambda: space.sample(mask=(1, 1)), lambda: space.sample(mask=(0, 2, 0, 0)), lambda: space.sample(probability=(1,)),
                      lambda: space.sample(mask=(1,) * 4, probability=(0.25,) * 4), lambda: Discrete(0), lambda: MultiDiscrete([2, 0]),
                      lambda: pair.sample(mask=((1, 1),)), lambda: space.seed(-1)):
            try:
                wrong()
            except ValueError:
                continue
            raise AssertionError(wrong)
    """)
