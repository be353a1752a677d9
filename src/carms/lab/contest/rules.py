"""How the contest works, in words: the text of its page."""

from carms.lab.contest.entries import OVERDRAFT
from carms.lab.contest.statistics import LEAST_SEEDS, LEVEL
from carms.lab.contest.times import PARTS, STEPS

__all__ = ["HOURS", "KEY", "PICTURE", "RULES"]

PICTURE = "Score against processor time, a panel for each task"
"""What the picture shows."""

KEY = (
    "In colour: the reference and the best at equal time. Grey: all others. Biased estimators are "
    "dashed, if they are in colour. The dotted line is equal time."
)
"""How the picture is read."""

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
    "Equal time": "The score at the moment when the reference has made all its steps. Nothing is "
    "interpolated: the judgement nearest to that moment counts, and the table says when it was, in "
    "runs of the reference. An entry whose time is below 1 ended earlier and is judged by its last "
    "step. An entry whose first judgement comes too late has no score and ranks last. Judgements "
    "are 2.5 to 10 % of a run apart, so a verdict near zero may depend on where they are.",
    "Time": "Processor time of training on one thread, in runs of the reference. It is measured "
    "apart from the runs, in one process, because a machine that does other things is sometimes "
    "slower. Steps of some estimators take longer when probabilities are far from equal. So the "
    f"reference is trained, and in the middle of each of {PARTS} parts of its training all entries "
    f"make {STEPS} steps from the model that it has then: one entry after the other, every other "
    "time in the opposite order. Each part gives the ratio of an entry's time to that of the "
    "reference. The table shows the mean of these ratios with the interval of the t distribution. "
    "It does not cover other machines, busy ones, or models of other entries, on which ratios may "
    "differ by ten per cent and more. An entry that could not be timed is not compared.",
    "Intervals at equal time": "All leads and ranks are computed three times: by the means of the "
    "times, by the lower ends of all their intervals, and by the upper ends. The intervals shown "
    "cover all three.",
    "Lead": "Mean over seeds of the difference to the reference with the same seed, positive if "
    f"better, with a bootstrap interval of {LEVEL:.0%} over all resamples of the seeds, "
    "expanded for few seeds as in T. Hesterberg (2015), What teachers should know about the "
    "bootstrap.",
    "Verdict": f"Better or worse if the interval leaves out zero, otherwise not distinguishable; "
    f"there is none with fewer than {LEAST_SEEDS} seeds. There is no correction for many "
    "comparisons: of entries that equal the reference, about one in eighteen is called better or "
    "worse by chance at equal steps with ten seeds, and one in twelve with five. The chosen rates "
    "are taken as fixed: the chance in their choice is not in the interval.",
    "Rank": "By the mean score over the seeds that all entries have, with an interval of "
    f"{LEVEL:.0%} from its places in the same resamples, expanded as for the lead. A failed "
    "run makes its entry the last one in every resample that has it.",
    "Order": "Each table of a task is sorted by its own ranks. Tables over all tasks are sorted by "
    "tasks won less tasks lost, then by the mean rank. An estimator for few tasks, such as those "
    "for binary variables, cannot lose elsewhere: its place is not comparable.",
    "Score": "Mean and standard deviation over seeds.",
    "Versions": "A result is kept when the program changes. An estimator that draws its random "
    "numbers in another order since then has other scores with the same seeds, and one that became "
    "faster has another time. To train an entry again, delete its lines in the CSV file of the "
    "task. To measure times again, delete the file of times; the command also does it when an "
    "entry is added.",
}
