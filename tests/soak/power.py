"""Power cuts: the log on a simulated disk, with extensions and rules, for as long as is asked for.

python -m tests.soak.power [SECONDS] [--seed N]

Each seed is three runs: the commands of beanstalkd, with extensions, and with limits. A failure names its seed.
"""

from tests.simulation.simulation import simulate
from tests.soak.seeds import arguments, say, seeds


def main() -> None:
    count = power_cuts = kills = put = deleted = 0
    for seed in seeds(arguments(__doc__).parse_args()):
        for extensions, limits in ((False, False), (True, False), (seed % 2 == 1, True)):
            done = simulate(seed, extensions=extensions, limits=limits)
            power_cuts += done.power_cuts
            kills += done.kills
            put += len(done.promises.put)
            deleted += len(done.promises.deleted)
        count += 1
    say(
        f"{count} seeds: {power_cuts} power cuts, {kills} kills, {put} puts and {deleted} deletes answered\n"
        "acknowledged and lost 0, deleted and back 0"
    )


if __name__ == "__main__":
    main()
