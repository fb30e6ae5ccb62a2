"""A spam filter for people who adapt: text in, a certified filter out.

The generated mails hide spam behind a few telling words. Someone who learns those words drops them;
the robust filter has been trained for that, and says how many mails no such edit can turn.
"""

import numpy as np
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from structinv import InvariantLinearSVC
from structinv.oracles import FDrop

TELLING = {"spam": ["winner", "prize", "free"], "ham": ["meeting", "report", "agenda"]}
HINTS = {"spam": 200, "ham": 200}


def write_mails(n_mails, rng):
    """Each mail has words that any mail has, weak hints of its class, and often a telling word."""
    texts, labels = [], []
    for _ in range(n_mails):
        label = str(rng.choice(["ham", "spam"]))
        other = "ham" if label == "spam" else "spam"
        words = [f"word{number}" for number in rng.zipf(1.5, size=20) % 500]
        words += [f"{label}hint{number}" for number in rng.integers(HINTS[label], size=6)]
        words += [f"{other}hint{number}" for number in rng.integers(HINTS[other], size=3)]
        if rng.random() < 0.95:
            words += [str(rng.choice(TELLING[label]))]
        texts.append(" ".join(words))
        labels.append(label)
    return texts, np.array(labels)


def certified_accuracy(model, texts, labels):
    """Share of mails that stay right whichever two words are dropped; a scorer for grid search."""
    counts = model[:-1].transform(texts)
    return model[-1].certify(counts, labels, oracle=FDrop(max_changes=2)).accuracy


def main():
    """Choose parameters by certified accuracy, then compare with a plain filter."""
    rng = np.random.default_rng(0)
    train, y = write_mails(600, rng)
    test, y_test = write_mails(600, rng)

    pipeline = make_pipeline(CountVectorizer(), InvariantLinearSVC(FDrop(1), random_state=0))
    grid = {
        "invariantlinearsvc__C": [0.01, 0.1],
        "invariantlinearsvc__oracle__max_changes": [0, 1, 2, 3],
    }
    search = GridSearchCV(pipeline, grid, scoring=certified_accuracy, cv=3).fit(train, y)
    print("chosen:", search.best_params_)

    print(f"{'filter':<10}{'clean':>8}{'certified, 2 words dropped':>29}")
    plain = clone(pipeline).set_params(invariantlinearsvc__oracle=None).fit(train, y)
    for name, model in (("plain", plain), ("robust", search.best_estimator_)):
        certified = certified_accuracy(model, test, y_test)
        print(f"{name:<10}{model.score(test, y_test):>8.1%}{certified:>29.1%}")

    robust = search.best_estimator_
    counts = robust[0].transform(test[:1])
    edited = robust[-1].worst_case(counts, y_test[:1], oracle=FDrop(max_changes=2))
    dropped = robust[0].get_feature_names_out()[(counts - edited).indices]
    print(f"worst edit of the first mail ({y_test[0]}): drop {', '.join(dropped)}")


if __name__ == "__main__":
    main()
