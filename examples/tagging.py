"""Robust sequence tagger for text with typing errors.

Every word has features of its spelling and of its neighbors. A typing error changes features of several
words. The robust tagger is trained for one dropped feature at every word.
"""

from sklearn.model_selection import GridSearchCV

from structinv import InvariantStructuredSVC
from structinv.datasets import conll_features, make_tagged_text, mistype
from structinv.oracles import FDrop, Identity
from structinv.structures import Sequence


def words_and_chunks(n_sentences, seed):
    """Generate sentences without parts of speech, and their chunks."""
    sentences, chunks = make_tagged_text(n_sentences, random_state=seed)
    return [[word for word, _ in sentence] for sentence in sentences], chunks


def main():
    """Train two taggers, and compare them at several rates of typing errors."""
    words, y = words_and_chunks(100, seed=0)
    words_test, y_test = words_and_chunks(200, seed=1)
    X = conll_features(words)
    print("features of the first word:", *X[0][0], sep="\n  ")

    model = InvariantStructuredSVC(Sequence(), tol=0.1, random_state=0)
    search = GridSearchCV(model, {"C": [0.03, 0.1]}, cv=2).fit(X, y)
    print("C selected on held-out sentences:", search.best_params_["C"])

    rates = (0.0, 0.1, 0.2, 0.3)
    tests = [
        conll_features(mistype(words_test, rate, known=sum(words, []), random_state=2)) for rate in rates
    ]
    print(f"{'oracle':<24}" + "".join(f"{rate:>8.0%}" for rate in rates) + f"{'certified':>12}")
    for oracle in (Identity(), FDrop(1)):
        tagger = search.best_estimator_.set_params(oracle=oracle).fit(X, y)
        accuracies = [tagger.score(test, y_test) for test in tests]
        certified = tagger.certify(tests[0], y_test, oracle=FDrop(1)).accuracy
        print(
            f"{oracle!r:<24}" + "".join(f"{each:>8.1%}" for each in accuracies) + f"{certified:>12.1%}"
        )
        assert accuracies[0] > 0.85

    predicted = tagger.predict(tests[0][:1])[0]
    print("\n".join(f"{word:<10}{label}" for word, label in zip(words_test[0], predicted, strict=True)))


if __name__ == "__main__":
    main()
