"""Numbers that the compiled and the torch engine share; nothing is imported here."""

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Adam (Kingma & Ba 2015)
SNAPSHOT_EVERY = 20  # steps between the copies that a diverging step falls back to
MAX_HALVINGS = 40
TINY_RATE = 1e-290  # below this rate the likelihood of a positive row is evaluated in log space
CALL_NUMBERS = (
    3e8  # rows x coefficients of one compiled call, after which the clock is looked at: some tenths of a second
)
