"""Chunks of sentences, from words alone: a tagger that expects to lose features, and text typed badly.

Every word has features of itself and its neighbors. A mistyped word takes some of them away, and those
of its neighbors that look at it. The robust tagger was trained for the worst loss of one feature at
every word, jointly with the worst labels of the sentence.
"""

from sklearn.model_selection import GridSearchCV

from structinv import InvariantStructuredSVC
from structinv.datasets import conll_features, make_tagged_text, mistype
from structinv.oracles import FDrop, Identity
from structinv.structures import Sequence


def words_and_chunks(n_sentences, seed):
    """Generated sentences without their parts of speech."""
    sentences, chunks = make_tagged_text(n_sentences, random_state=seed)
    return [[word for word, _ in sentence] for sentence in sentences], chunks


def main():
    """Train both taggers; compare them on text that is typed worse and worse."""
    words, y = words_and_chunks(100, seed=0)
    words_test, y_test = words_and_chunks(200, seed=1)
    X = conll_features(words)
    print("first word:", *X[0][0], sep="\n  ")

    model = InvariantStructuredSVC(Sequence(), tol=0.1, random_state=0)
    search = GridSearchCV(model, {"C": [0.03, 0.1]}, cv=2).fit(X, y)
    print("C chosen on held-out sentences:", search.best_params_["C"])

    rates = (0.0, 0.1, 0.2, 0.3)
    tests = [
        conll_features(mistype(words_test, rate, known=sum(words, []), random_state=2)) for rate in rates
    ]
    print(f"{'trained for':<24}" + "".join(f"{rate:>8.0%}" for rate in rates) + f"{'certified':>12}")
    for oracle in (Identity(), FDrop(1)):
        tagger = search.best_estimator_.set_params(oracle=oracle).fit(X, y)
        shares = [tagger.score(test, y_test) for test in tests]
        certified = tagger.certify(tests[0], y_test, oracle=FDrop(1)).accuracy
        print(f"{oracle!r:<24}" + "".join(f"{share:>8.1%}" for share in shares) + f"{certified:>12.1%}")
        assert shares[0] > 0.85

    predicted = tagger.predict(tests[0][:1])[0]
    print("\n".join(f"{word:<10}{label}" for word, label in zip(words_test[0], predicted, strict=True)))


if __name__ == "__main__":
    main()
