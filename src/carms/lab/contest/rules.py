"""How the contest works, in words: the text of its page."""

from carms.lab.contest.entries import OVERDRAFT
from carms.lab.contest.statistics import LEAST_SEEDS, LEVEL

__all__ = ["HOURS", "PICTURE", "RULES"]

PICTURE = "Score against processor time, a panel for each task; biased estimators are dashed"
"""What the picture shows."""

HOURS = "Hours are those of training steps alone; judgements come on top."
"""What the hours are."""

RULES = {
    "Entries": "Every registered estimator with its default options, and with the most samples "
    "whose evaluations of f for a gradient stay within the budget of the task. If even the fewest "
    f"samples need more, it takes part with up to {OVERDRAFT} times the budget, but is compared at "
    "equal time only. Some entries use a little less than the budget; the tables show the "
    "evaluations of each. Derivatives of f are not counted as evaluations, although estimators "
    "that need a differentiable f take them. At equal time they count, at equal steps they do not. "
    "If the mean of its gradient is not the gradient, it is marked as biased, and dashed in the "
    "picture.",
    "Rates": "Each entry has the best of three rates of Adam, by the mean over trial runs with "
    "other seeds of the best validation score of a run. A rate that fails in a trial is out. A "
    "rate at an end of the three is marked: a better one may lie beyond. The score of a trial is "
    "that after all steps, so that at equal time a slow entry has a rate for longer training.",
    "Runs": "The same seed gives every entry the same first weights, and examples in the same "
    "order; images are binarised anew for each entry. At every judgement the model with the best "
    "validation score so far counts (early stopping); its score on test examples is recorded. A "
    "run that diverges at any step has no score and ranks last, at equal time too.",
    "Equal steps": "The score after all steps.",
    "Equal time": "The score at the moment when the reference has made all its steps, in processor "
    "time of training steps on one thread. Nothing is interpolated: the judgement nearest to that "
    "moment counts, and the table says when it was, in runs of the reference. The time of an entry "
    "is the median over its runs, which take turns with those of the others. An entry whose time "
    "is below 1 ended earlier and is judged by its last step. One that was first judged too late "
    "has no score and ranks last. The measured times have an error, too: in the intervals each "
    "resample of the seeds has the median times of the runs that were drawn, of the entry and of "
    "the reference, and with them a judgement of its own.",
    "Lead": "Mean over seeds of the difference to the reference with the same seed, positive if "
    f"better, with a bootstrap interval of {LEVEL:.0%} over all resamples of the seeds, "
    "expanded for few seeds as in T. Hesterberg (2015), What teachers should know about the "
    "bootstrap.",
    "Verdict": f"Better or worse if the interval leaves out zero, otherwise not distinguishable; "
    f"there is none with fewer than {LEAST_SEEDS} seeds. Each interval stands alone: of "
    "entries that equal the reference, about one in eighteen is called better or worse by chance "
    "with ten seeds, and one in twelve with five. These two figures are for equal steps: the error "
    "of the times makes the intervals at equal time rougher. All is given the rates: the chance in "
    "their choice is not in the interval.",
    "Rank": "By the mean score over the seeds that all entries have, with an interval of "
    f"{LEVEL:.0%} from its places in the same resamples, expanded as for the lead. A failed "
    "run makes its entry the last one in every resample that has it.",
    "Order": "Each table of a task is sorted by its own ranks. Tables over all tasks are sorted by "
    "tasks won less tasks lost, then by the mean rank. An estimator for few tasks, such as those "
    "for binary variables, cannot lose elsewhere: its place is not comparable.",
    "Score": "Mean and standard deviation over seeds.",
    "Versions": "A result is kept when the program changes. An estimator that draws its random "
    "numbers in another order since then has other scores with the same seeds, and one that became "
    "faster has another time. Delete its lines, and the command trains it anew.",
}
