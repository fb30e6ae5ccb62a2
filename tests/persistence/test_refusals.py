"""Model files that are damaged, made by hand, or of other versions are refused."""

import inspect
import json
import zipfile
from functools import cache
from io import BytesIO

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import structinv
from structinv import (
    InvariantLinearSVC,
    InvariantSVC,
)
from structinv.datasets import load_conll
from structinv.estimators.base import InvariantEstimator
from structinv.functionals import Functional
from structinv.kernels import Kernel
from structinv.losses import ScalarLoss
from structinv.oracles import Box, FDrop, InvarianceOracle
from structinv.persistence import refusals
from structinv.persistence.model_files import model_bytes
from structinv.persistence.refusals import OWN
from structinv.persistence.stored import StandIn
from structinv.solvers import Solver

from ..commands import fail
from ..functionals.cases import CASES as FUNCTIONAL_CASES
from ..hostile import EVIL, check_message, is_visible
from ..oracles.cases import CASES as ORACLE_CASES
from .cases import (
    MODELS,
    Own,
    assert_answers_are_the_same,
    assert_same,
    fitted,
    signals,
    through_file,
)

pytestmark = pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning")


class TestTrustedTypes:
    @pytest.mark.parametrize(
        "base", [InvarianceOracle, Functional, Kernel, ScalarLoss, Solver, InvariantEstimator]
    )
    def test_every_class_of_the_package_is_trusted(self, base):
        found, waiting = set(), [base]
        while waiting:
            kind = waiting.pop()
            waiting += kind.__subclasses__()
            ours = kind.__module__.startswith("structinv.") and not kind.__name__.startswith("_")
            # Models of a cluster are saved by way of `to_local`.
            ours = ours and not kind.__module__.startswith("structinv.dask")
            if ours and not inspect.isabstract(kind):
                found.add(kind)
        bases = {"InvariantClassifier", "RepresenterMachine", "SupportVectorMachine"}
        bases |= {"InvariantEstimator", "InvariantRegressor", "KernelMachine", "LinearMachine"}
        bases |= {"FiniteOracle", "ImageOracle", "EditOracle", "Combination", "Pair"}
        bases |= {"LabelingEstimator", "OracleWrapper", "WholeExample"}
        # Holds the texts of one fit; a model holds what it is made of.
        bases.add("TextEdits")
        missing = {kind.__name__ for kind in found - OWN} - bases
        assert not missing, f"add {sorted(missing)} to persistence/refusals.py"

    @pytest.mark.filterwarnings("ignore:the file contains")
    def test_parameters_of_all_families_come_back(self, tmp_path):
        cases = [*ORACLE_CASES, *FUNCTIONAL_CASES]
        families = [case.make() if hasattr(case, "make") else case.oracle for case in cases]
        names = [trusted_names(family) for family in families]
        # What needs no trust is saved without a warning.
        for strange in (False, True):
            these = [
                family for family, each in zip(families, names, strict=True) if bool(each) is strange
            ]
            trusted = sum(names, []) if strange else ()
            holder = make_pipeline(*(InvariantSVC(family) for family in these))
            again = through_file(holder, tmp_path, trusted=trusted)
            assert len(again) == len(these) > 1
            for family, other in zip(these, again, strict=True):
                assert type(other.oracle) is type(family)
                assert_same(family.get_params(), other.oracle.get_params())

    def test_functions_of_the_package_are_not(self, tmp_path):
        model = InvariantSVC(kernel=load_conll)
        with pytest.raises(TypeError, match="pickle it, because of structinv.*load_conll"):
            structinv.save(model, tmp_path / "m")

    def test_skops_reads_the_file(self, tmp_path):
        model, data = MODELS["texts"]
        model = fitted(clone(model), data)
        structinv.save(model, tmp_path / "m")
        types = skops.io.get_untrusted_types(file=tmp_path / "m")
        again = skops.io.load(tmp_path / "m", trusted=types)
        assert_answers_are_the_same(model, again, data[0])


def trusted_names(family):
    kinds = {type(family), *(type(each) for each in family.get_params().values())}
    strange = [kind for kind in kinds if kind.__module__.startswith("tests.")]
    return [*strange, *(v for v in family.get_params().values() if inspect.isfunction(v))]


def with_page_of(path, content):
    """Add the versions of a model file to a file of skops."""
    stream = BytesIO(content)
    with zipfile.ZipFile(stream, "a") as archive, zipfile.ZipFile(path) as given:
        archive.writestr("structinv.json", given.read("structinv.json"))
    return stream.getvalue()


@cache
def good_file():
    return model_bytes(fitted(InvariantLinearSVC(Box(0.1), tol=0.1), signals()))[0]


class TestRefusals:
    @pytest.fixture
    def path(self, tmp_path):
        (tmp_path / "m").write_bytes(good_file())
        return tmp_path / "m"

    def refusal(self, path):
        with pytest.raises(ValueError, match=".") as caught:
            structinv.load(path)
        assert str(path) in str(caught.value)
        return str(caught.value)

    def test_truncated(self, path):
        content = path.read_bytes()
        for share in (0.0, 0.3, 0.7, 0.99):
            path.write_bytes(content[: int(share * len(content))])
            assert "not a model file of structinv, or is truncated" in self.refusal(path)

    def test_every_damaged_byte_is_a_value_error_or_no_matter(self, path):
        content = path.read_bytes()
        for place in range(0, len(content), max(1, len(content) // 75)):
            path.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
            try:
                structinv.load(path)
            except ValueError as error:
                assert str(path) in str(error)  # noqa: PT017

    def test_other_files(self, path):
        path.write_bytes(b"1 1:2\n")
        assert "not a model file" in self.refusal(path)
        skops.io.dump({"a": 1}, path)
        assert "skops.io.load" in self.refusal(path)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("other", "1")
        assert "not a model file" in self.refusal(path)

    def rewritten(self, path, name, change):
        """Change one page of JSON in a file, as by hand."""
        with zipfile.ZipFile(path) as archive:
            content = {name: archive.read(name) for name in archive.namelist()}
        page = json.loads(content[name])
        change(page)
        with zipfile.ZipFile(path, "w") as archive:
            for each, value in (content | {name: json.dumps(page)}).items():
                archive.writestr(each, value)
        return self.refusal(path)

    def changed_page(self, path, **changes):
        return self.rewritten(path, "structinv.json", lambda page: page.update(changes))

    @pytest.mark.parametrize("version", ["99.0", "0.1.7"])
    def test_another_minor_version(self, path, version):
        line = self.changed_page(path, libraries={"structinv": version, "numpy": "3.1"})
        assert f"was written with structinv {version}, numpy 3.1" in line
        assert f"structinv {structinv.__version__} reads" in line
        assert "train the model again" in line

    @pytest.mark.parametrize("changes", [{"libraries": "2"}, {"libraries": None}, {"notes": 3}])
    def test_an_invalid_page_is_refused(self, path, changes):
        assert "it has no versions" in self.changed_page(path, **changes)

    def planted(self, path, **changes):
        """Change the first node of an oracle in a file."""

        def change(schema):
            schema["content"]["content"]["oracle"] |= changes

        return self.rewritten(path, "schema.json", change)

    @pytest.mark.parametrize(
        ("module", "name", "loader"),
        [
            ("os", "system", "ObjectNode"),
            ("os", "system", "FunctionNode"),
            ("structinv.rows.folder", "RowFolder", "ObjectNode"),
            ("structinv.rows.folder", "RowFolder", "ConstructorFromReduceNode"),
            ("structinv.datasets.conll", "load_conll", "FunctionNode"),
            ("structinv.datasets.conll", "load_conll", "NdArrayNode"),
            ("structinv.oracles", "Box", "ObjectNode"),
            ("structinv.oracles", "Box", "TypeNode"),
        ],
    )
    def test_planted_names(self, path, module, name, loader):
        """What a hand-made file may name is a closed list."""
        node = {"__module__": module, "__class__": name, "__loader__": loader}
        if loader == "NdArrayNode":
            node |= {"type": "numpy", "file": "1.npy"}
        assert f"is refused, because it contains {module}.{name}" in self.planted(path, **node)

    @pytest.mark.parametrize(
        "value",
        [
            ("decode", b"a"),
            ("vocabulary", b"a", np.arange(2)),
            ("words", b"a\nb", (3,)),
            ("member", 1, 2),
        ],
    )
    def test_planted_stand_ins(self, path, value):
        structinv.save(InvariantLinearSVC(Own(size={True: 1.0})), path)
        planted = StandIn.of(*value)
        path.write_bytes(with_page_of(path, skops.io.dumps(planted)))
        assert "cannot be read" in self.refusal(path)

    @pytest.mark.parametrize("loader", ["ObjectNode", "ConstructorFromReduceNode"])
    def test_sparse_matrices_have_files(self, path, loader):
        node = {"__module__": "scipy.sparse._csr", "__class__": "csr_matrix", "__loader__": loader}
        assert "contains a csr_matrix in parts" in self.planted(path, **node)

    @pytest.mark.parametrize(
        "held",
        [
            lambda X: X,
            lambda X: [1, X],
            lambda X: (sp.csr_matrix(np.eye(3)), X),
            lambda X: {"a": [{"b": X}]},
            lambda X: StandIn.of("dict", [1], [X]),
            lambda X: Own(size=[X]),
        ],
        ids=["alone", "list", "tuple", "dict", "stand-in", "oracle"],
    )
    def test_sparse_matrices_have_valid_indices(self, path, held):
        X = sp.csr_matrix(np.eye(3))
        X.indices[1] = 2_000_000_000
        path.write_bytes(with_page_of(path, skops.io.dumps(held(X))))
        assert "is a damaged model file: ValueError: a matrix must have" in self.refusal(path)


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


class TestDeclaredSizes:
    @pytest.fixture
    def path(self, tmp_path):
        structinv.save(InvariantLinearSVC(FDrop(1)), tmp_path / "m")
        return tmp_path / "m"

    def rewrite(self, path, compression=zipfile.ZIP_DEFLATED, **parts):
        parts = members(path) | {name.replace("_", "."): content for name, content in parts.items()}
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, content in parts.items():
                archive.writestr(name, content)

    @pytest.mark.parametrize("name", ["structinv_json", "schema_json"])
    def test_large_json_is_refused_by_its_ratio(self, path, name, monkeypatch):
        self.rewrite(path, **{name: b"[" + b"[]," * 3_000_000 + b"[]]"})
        monkeypatch.setattr(json, "loads", None)
        with pytest.raises(
            ValueError, match=r"m is refused, because .*json takes 9.0 MB, compressed to 0"
        ):
            structinv.load(path)
        assert ".json takes 9.0 MB" in fail("predict", path, path)

    @pytest.mark.parametrize("inside", [False, True])
    def test_large_arrays_are_refused_by_their_total_also_inside_archives(
        self, path, monkeypatch, inside
    ):
        monkeypatch.setattr(refusals, "BYTES", 1e6)
        monkeypatch.setattr(refusals, "RATIO", 10.0)
        stream = BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("data.npy", bytes(10_000_000))
        parts = {"1_npz": stream.getvalue()} if inside else {"1_npy": bytes(10_000_000)}
        self.rewrite(path, **parts)
        message = r"m is refused, because its parts take 10.\d MB, compressed to"
        with pytest.raises(ValueError, match=message):
            structinv.load(path)

    @pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_other_compressions_are_refused(self, path, compression):
        self.rewrite(path, compression)
        with pytest.raises(ValueError, match="has a compression other than that of structinv.save"):
            structinv.load(path)

    def test_weights_of_zero_are_loaded(self, tmp_path):
        model = InvariantLinearSVC(random_state=0)
        model.fit(np.eye(2), [0, 1])
        model.coef_ = np.zeros((1, 2_000_000))
        structinv.save(model, tmp_path / "wide")
        assert (tmp_path / "wide").stat().st_size < 50_000
        assert structinv.load(tmp_path / "wide").coef_.shape == (1, 2_000_000)

    def test_names_of_types_are_escaped_and_cut(self, path):
        schema = json.loads(members(path)["schema.json"])
        schema |= {"__class__": EVIL, "__module__": "a"}
        self.rewrite(path, schema_json=json.dumps(schema))
        with pytest.raises(ValueError, match="m ") as caught:
            structinv.load(path)
        assert is_visible(str(caught.value))
        assert len(str(caught.value)) < 3000

    def test_versions_are_escaped_and_cut(self, path):
        page = json.loads(members(path)["structinv.json"])
        page["libraries"] |= {"structinv": "99.0", "numpy": EVIL}
        self.rewrite(path, structinv_json=json.dumps(page))
        with pytest.raises(ValueError, match="the same minor version only") as caught:
            structinv.load(path)
        check_message(str(caught.value))
