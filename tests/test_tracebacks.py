"""Tracebacks: what is found in real-looking text, how records chain, and that no text makes the parser fail."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwreck.diagnosis import ExceptionRecord, Frame, Line
from trainwreck.tracebacks import parse, root_of


def lines_of(text: str, speaker: str = "", level: str | None = None) -> list[Line]:
    return [
        Line(number=i + 1, text=said, quote=said, speaker=speaker, level=level)
        for i, said in enumerate(text.split("\n"))
    ]


def parsed(text: str) -> list[ExceptionRecord]:
    return parse(lines_of(text))


@dataclass(frozen=True)
class Want:
    type: str
    message: str
    """Start of the message."""
    frames: int
    at: int
    """1-based line."""
    link: str | None = None
    previous: int | None = None
    root: int | None = None
    """Index that root_of gives; the record itself where None."""
    kind: str = "python"


FORMS: dict[str, tuple[str, list[Want]]] = {
    "carets, several code lines, a repeated line, a message of three lines, then a metric line": (
        """loading data
Traceback (most recent call last):
  File "train.py", line 12, in <module>
    main()
    ~~~~^^
  File "train.py", line 8, in main
    x = attend(
        a,
    ...<2 lines>...
    )
  [Previous line repeated 996 more times]
RuntimeError: CUDA error: an illegal memory access was encountered
CUDA kernel errors might be asynchronously reported at some other API call.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1

step 10 loss=3.2""",
        [Want("RuntimeError", "CUDA error: an illegal", 2, 12)],
    ),
    "python 2.7, bare dotted type": (
        """Process Process-4:
Traceback (most recent call last):
  File "/usr/lib/python2.7/multiprocessing/process.py", line 258, in _bootstrap
    self.run()
Empty""",
        [Want("Empty", "", 1, 5)],
    ),
    "frames without source": (
        """Traceback (most recent call last):
  File "<string>", line 1, in <module>
  File "<frozen importlib._bootstrap>", line 228, in _call_with_frames_removed
torch._dynamo.exc.Unsupported: hasattr on a traced module""",
        [Want("torch._dynamo.exc.Unsupported", "hasattr", 2, 4)],
    ),
    "syntax error without a header": (
        """  File "train.py", line 3
    def f(
         ^
SyntaxError: '(' was never closed""",
        [Want("SyntaxError", "'(' was never", 1, 4)],
    ),
    "direct cause, then another while handling": (
        """Traceback (most recent call last):
  File "a.py", line 1, in f
    x
KeyError: 'a'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "a.py", line 3, in g
    y
ValueError: bad

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 5, in h
    z
RuntimeError: worse""",
        [
            Want("KeyError", "'a'", 1, 4),
            Want("ValueError", "bad", 1, 11, "cause", 0, 0),
            Want("RuntimeError", "worse", 1, 18, "context", 1, 0),
        ],
    ),
    "DataLoader worker": (
        """Traceback (most recent call last):
  File "train.py", line 1, in <module>
    for batch in loader:
  File "/env/torch/_utils.py", line 706, in reraise
    raise exception
RuntimeError: Caught RuntimeError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/env/torch/utils/data/_utils/worker.py", line 302, in _worker_loop
    data = fetcher.fetch(index)
RuntimeError: stack expects each tensor to be equal size, but got [3, 4] at entry 0 and [3, 5] at entry 1

Killed""",
        [
            Want("RuntimeError", "Caught RuntimeError in DataLoader", 2, 6, "remote", 1, 1),
            Want("RuntimeError", "stack expects each tensor", 1, 10),
        ],
    ),
    "traceback as the message, as old loaders print it": (
        """  3%|▎         | 12/400 [00:09<04:51,  1.33it/s]Traceback (most recent call last):
  File "segment.py", line 41, in epoch
    for image, mask in loader:
  File "/env/torch/utils/data/dataloader.py", line 286, in __next__
    raise batch.exc_type(batch.exc_msg)
ValueError: Traceback (most recent call last):
  File "/env/torch/utils/data/dataloader.py", line 57, in _worker_loop
    samples = collate_fn([dataset[i] for i in batch_indices])
ValueError: low >= high while cropping 224 from 200""",
        [Want("ValueError", "", 2, 6, "remote", 1, 1), Want("ValueError", "low >= high", 1, 9)],
    ),
    "torch spawn": (
        """Traceback (most recent call last):
  File "train.py", line 1, in <module>
    mp.spawn(run)
torch.multiprocessing.spawn.ProcessRaisedException: 

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/env/torch/multiprocessing/spawn.py", line 69, in _wrap
    fn(i, *args)
ValueError: boom""",
        [
            Want("torch.multiprocessing.spawn.ProcessRaisedException", "-- Process 1", 1, 4, "remote", 1, 1),
            Want("ValueError", "boom", 1, 10),
        ],
    ),
    "remote traceback in quotes": (
        """joblib.externals.loky.process_executor._RemoteTraceback: 
\"\"\"
Traceback (most recent call last):
  File "prep.py", line 2, in f
    1 / 0
ZeroDivisionError: division by zero
\"\"\"

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "prep.py", line 9, in <module>
    run()
ZeroDivisionError: division by zero""",
        [
            Want("ZeroDivisionError", "division by zero", 1, 6),
            Want("ZeroDivisionError", "division by zero", 1, 14, "remote", 0, 0),
        ],
    ),
    "ray task": (
        """Traceback (most recent call last):
  File "tune.py", line 3, in <module>
    ray.get(train.remote())
ray.exceptions.RayTaskError(ValueError): ray::train() (pid=123, ip=10.0.0.4)
  File "tune.py", line 2, in train
    raise ValueError("bad")
ValueError: bad""",
        [
            Want("ray.exceptions.RayTaskError(ValueError)", "ray::train()", 1, 4, "remote", 1, 1),
            Want("ValueError", "bad", 1, 7),
        ],
    ),
    "ray worker's stack without a header": (
        """ray::train() (pid=123, ip=10.0.0.4)
  File "tune.py", line 2, in train
    raise ValueError("bad")
ValueError: bad""",
        [Want("ValueError", "bad", 1, 4)],
    ),
    "torchrun's summary with a child's traceback": (
        """torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2024-01-01_00:00:00
  exitcode  : 1 (pid: 123)
  traceback : Traceback (most recent call last):
    File "/env/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 346, in wrapper
      return f(*args, **kwargs)
  RuntimeError: boom

============================================================""",
        [
            Want("torch.distributed.elastic.multiprocessing.errors.ChildFailedError", "=====", 0, 1, "remote", 1, 1),
            Want("RuntimeError", "boom", 1, 15),
        ],
    ),
    "compiler wraps the program's error": (
        """Traceback (most recent call last):
  File "train.py", line 1, in step
    model(x)
torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:
AttributeError: 'float' object has no attribute 'meta'

While executing %add : [num_users=1]
Original traceback:
  File "model.py", line 3, in forward
    return x + 1

Set TORCHDYNAMO_VERBOSE=1 for more information""",
        [
            Want("torch._dynamo.exc.BackendCompilerFailed", "backend='inductor' raised:", 1, 4, "remote", 1, 1),
            Want("AttributeError", "'float' object", 0, 5),
        ],
    ),
    "keras: in user code": (
        """Traceback (most recent call last):
  File "fit.py", line 9, in <module>
    model.fit(x)
ValueError: in user code:

    File "/env/keras/engine/training.py", line 1284, in train_function  *
        return step_function(self, iterator)
    ValueError: Input 0 of layer "dense" is incompatible with the layer""",
        [
            Want("ValueError", "in user code:", 1, 4, "remote", 1, 1),
            Want("ValueError", 'Input 0 of layer "dense"', 1, 8),
        ],
    ),
    "hydra": (
        """Error executing job with overrides: []
Traceback (most recent call last):
  File "train.py", line 4, in main
    run(cfg)
omegaconf.errors.ConfigAttributeError: Key 'lr' is not in struct
    full_key: lr
    object_type=dict

Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.""",
        [Want("omegaconf.errors.ConfigAttributeError", "Key 'lr' is not in struct\n    full_key: lr", 1, 5)],
    ),
    "top cut": (
        """    return f()
  File "x.py", line 1, in f
    raise ValueError("x")
ValueError: x""",
        [Want("ValueError", "x", 1, 4)],
    ),
    "end cut": (
        """Traceback (most recent call last):
  File "x.py", line 1, in f
    g()""",
        [Want("", "", 1, 2)],
    ),
    "only the header is left": ("INFO done\nTraceback (most recent call last):", [Want("", "", 0, 2)]),
    "lone heads; warnings, levels, tools and metrics are none": (
        """torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB
/env/x.py:3: UserWarning: lr_scheduler.step() before optimizer.step()
FutureWarning: deprecated
Error: something
ValidationError: 0.134
train.py: error: unrecognized arguments: --foo
node1.cluster.local: up
ERROR: Failed building wheel
KeyboardInterrupt
zmq.error.Again: Resource temporarily unavailable""",
        [
            Want("torch.cuda.OutOfMemoryError", "CUDA out of memory", 0, 1),
            Want("KeyboardInterrupt", "", 0, 9),
            Want("zmq.error.Again", "Resource", 0, 10),
        ],
    ),
    "after a logger's words": (
        """2024-05-01 10:00:00 ERROR train failed: RuntimeError: CUDA out of memory
2024-05-01 10:00:01 WARNING could not load plugin: ImportError: no such thing
2024-05-01 10:00:02 ERROR engine died: RuntimeError('shapes differ\\nsee above')""",
        [Want("RuntimeError", "CUDA out of memory", 0, 1), Want("RuntimeError", "shapes differ\nsee above", 0, 3)],
    ),
    "wrapped twice in one line": (
        "RuntimeError: RuntimeError: DataLoader worker (pid 12) exited",
        [Want("RuntimeError", "RuntimeError: DataLoader", 0, 1)],
    ),
    "message before its frames": (
        """ValueError: num_samples should be a positive integer value, but got num_samples=0
  File "x.py", line 1, in f
    g()
  File "y.py", line 1, in h""",
        [Want("ValueError", "num_samples", 2, 1)],
    ),
    "indentation lost": (
        """File "/src/unet.py", line 88, in forward
skip = self.down(x)
^^^^^^^^^^^^
File "/env/module.py", line 1501, in _call_impl
return forward_call(*args)
RuntimeError: Given groups=1, expected input to have 3 channels""",
        [Want("RuntimeError", "Given groups=1", 2, 6)],
    ),
    "a prefix that was not set aside": (
        """serve-0  | ERROR 03-02 09:15:58 core.py:71] Traceback (most recent call last):
serve-0  | ERROR 03-02 09:15:58 core.py:71]   File "/env/worker.py", line 40, in profile
serve-0  | ERROR 03-02 09:15:59 core.py:71]     raise ValueError(f"{free} blocks are not enough")
serve-0  | ERROR 03-02 09:15:59 core.py:71] ValueError: 12 blocks are not enough""",
        [Want("ValueError", "12 blocks", 1, 4)],
    ),
    "line ends escaped": (
        r'{"message": "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    g()\nOSError: x\n"}',
        [Want("OSError", "x", 1, 1)],
    ),
    "log lines in the middle": (
        """Traceback (most recent call last):
  File "x.py", line 1, in f
    g()
[2024-02-03 04:05:06,007] [INFO] [launch.py:90] Killing subprocess 811
  File "x.py", line 5, in g
    h()
TypeError: h() takes 1 positional argument
[2024-02-03 04:05:06,009] [INFO] [launch.py:90] Killing subprocess 812""",
        [Want("TypeError", "h() takes 1 positional argument", 2, 7)],
    ),
    "state dict": (
        """RuntimeError: Error(s) in loading state_dict for Net:
\tMissing key(s) in state_dict: "a".
\tsize mismatch for b""",
        [Want("RuntimeError", 'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "a".', 0, 1)],
    ),
    "old notebook": (
        """---------------------------------------------------------------------------
RuntimeError                              Traceback (most recent call last)
<ipython-input-3-abc> in <module>
      1 x = 1
----> 2 model(x)

/usr/lib/python3.7/site-packages/torch/nn/modules/module.py in __call__(self, *input, **kwargs)
    487             result = self._slow_forward(*input, **kwargs)
--> 489             result = self.forward(*input, **kwargs)
    490

RuntimeError: size mismatch, m1: [1 x 2], m2: [3 x 4]""",
        [Want("RuntimeError", "size mismatch", 2, 12)],
    ),
    "new notebook": (
        """TypeError                                 Traceback (most recent call last)
Cell In[3], line 2
      1 x = 1
----> 2 f(x)

File ~/proj/x.py:12, in f(x)
     10 def f(x):
---> 12     return x + None

TypeError: unsupported operand""",
        [Want("TypeError", "unsupported", 2, 10)],
    ),
    "notebook without its last line": (
        """TypeError                                 Traceback (most recent call last)
Cell In[3], line 2
----> 2 f(x)""",
        [Want("TypeError", "", 1, 1)],
    ),
    "rich box": (
        """╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /path/x.py:12 in main                                                        │
│                                                                              │
│   10 def main():                                                             │
│ ❱ 12     f()                                                                 │
│ /very/long/path/that/wraps/aro                                               │
│ und.py:15 in f                                                               │
│ ❱ 15     raise ValueError                                                    │
╰──────────────────────────────────────────────────────────────────────────────╯
ValueError: nope""",
        [Want("ValueError", "nope", 2, 10)],
    ),
    "pytest": (
        """    def test_x():
>       f()
E       ValueError: x
E       more

tests/test_x.py:12: ValueError""",
        [Want("ValueError", "x\nmore", 1, 3)],
    ),
    "jax, the stage before filtering": (
        """Traceback (most recent call last):
  File "/env/jax/_src/traceback_util.py", line 166, in reraise
    return fun(*args, **kwargs)
jax._src.traceback_util.UnfilteredStackTrace: TypeError: bad arg

The stack trace below excludes JAX-internal frames.
The preceding is the original exception that occurred, unmodified.

--------------------

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "m.py", line 3, in <module>
    f(1)
TypeError: bad arg""",
        [Want("TypeError", "bad arg", 1, 16)],
    ),
    "jax, cut after the stage before filtering": (
        """Traceback (most recent call last):
  File "/env/jax/_src/traceback_util.py", line 166, in reraise
    return fun(*args, **kwargs)
jax._src.traceback_util.UnfilteredStackTrace: TypeError: bad arg""",
        [Want("TypeError", "bad arg", 1, 4)],
    ),
    "jax, simplified": (
        """jax.errors.SimplifiedTraceback: For simplicity, JAX has removed its internal frames from the traceback.

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "m.py", line 3, in <module>
    f(1)
ValueError: bad arg
--------------------
For simplicity, JAX has removed its internal frames from the traceback of the following exception.""",
        [Want("ValueError", "bad arg", 1, 8)],
    ),
    "tensorflow 2": (
        """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    model.fit(x)
tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:

Detected at node 'm/emb' defined at (most recent call last):
    File "train.py", line 3, in <module>
      model.fit(x)
Node: 'm/emb'
2 root error(s) found.
  (0) INVALID_ARGUMENT:  indices[0,1] = 5 is not in [0, 5)
\t [[{{node m/emb}}]]
  (1) CANCELLED""",
        [Want("tensorflow.python.framework.errors_impl.InvalidArgumentError", "Graph execution error:", 1, 4)],
    ),
    "tensorflow 1": (
        """Traceback (most recent call last):
  File "train.py", line 9, in <module>
    sess.run(x)
tensorflow.python.framework.errors_impl.InvalidArgumentError: Incompatible shapes: [32] vs. [31]
\t [[Node: add = Add[T=DT_FLOAT](a, b)]]

Caused by op 'add', defined at:
  File "train.py", line 3, in <module>
    y = a + b

InvalidArgumentError (see above for traceback): Incompatible shapes: [32] vs. [31]""",
        [Want("tensorflow.python.framework.errors_impl.InvalidArgumentError", "Incompatible shapes", 1, 4)],
    ),
    "anomaly mode's forward stack is nobody's exception": (
        """Warning: Error detected in MulBackward0. Traceback of forward call that caused the error:
  File "x.py", line 3, in <module>
    y = a * b
 (function _print_stack)
Traceback (most recent call last):
  File "x.py", line 9, in <module>
    y.backward()
RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.""",
        [Want("RuntimeError", "Function 'MulBackward0'", 1, 8)],
    ),
    "spark": (
        """py4j.protocol.Py4JJavaError: An error occurred while calling o54.fit.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.X.f(X.scala:12)
\tat org.apache.spark.Y.g(Y.scala:13)
Caused by: java.lang.OutOfMemoryError: Java heap space
\tat java.util.Arrays.copyOf(Arrays.java:3332)
\t... 12 more""",
        [
            Want("py4j.protocol.Py4JJavaError", "An error occurred", 0, 1, "remote", 1, 2),
            Want("org.apache.spark.SparkException", "Job aborted", 2, 2, "cause", 2, 2, "other"),
            Want("java.lang.OutOfMemoryError", "Java heap space", 1, 5, kind="other"),
        ],
    ),
    "C++ terminate": (
        """terminate called after throwing an instance of 'c10::Error'
  what():  CUDA error: an illegal memory access was encountered
CUDA kernel errors might be asynchronously reported
Exception raised from c10_cuda_check_implementation at CUDAException.cpp:44 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x7f in /env/libc10.so)
frame #1: <unknown function> + 0x1e79f (0x7f in /env/libc10_cuda.so)

Aborted (core dumped)""",
        [Want("c10::Error", "CUDA error: an illegal memory access was encountered\nCUDA", 2, 1, kind="native")],
    ),
    "C++ stack below a Python message": (
        """RuntimeError: NCCL communicator was aborted
Exception raised from check at NCCLUtils.hpp:10 (most recent call first):
frame #0: c10::Error::Error() + 0x57 (0x7f in /env/libc10.so)""",
        [Want("RuntimeError", "NCCL communicator was aborted", 0, 1)],
    ),
    "glog": (
        """F0203 04:05:06.700800   321 blob.cpp:33] Check failed: shape[i] >= 0 (-1 vs. 0)
*** Check failure stack trace: ***
    @     0x7f00000015cd  google::LogMessage::Fail()
    @     0x7f0000001a70  caffe::Blob<>::Reshape()
Aborted (core dumped)""",
        [Want("Check failed", "shape[i] >= 0", 2, 1, kind="native")],
    ),
    "faulthandler": (
        """Fatal Python error: Segmentation fault

Thread 0x00007f1 (most recent call first):
  File "/usr/lib/python3.10/threading.py", line 302 in wait

Current thread 0x00007f2 (most recent call first):
  File "/env/conv.py", line 453 in _conv_forward
  File "train.py", line 3 in <module>

Extension modules: numpy.core (total: 1)""",
        [Want("Fatal Python error", "Segmentation fault", 2, 1, kind="native")],
    ),
    "Open MPI": (
        """[node1:12345] *** Process received signal ***
[node1:12345] Signal: Segmentation fault (11)
[node1:12345] Failing at address: 0x10
[node1:12345] [ 0] /lib/libpthread.so.0(+0x153c0)[0x7f]
[node1:12345] [ 1] /env/libnccl.so(ncclAllReduce+0x1d)[0x7f]
[node1:12345] *** End of error message ***""",
        [Want("Signal", "Segmentation fault (11)", 2, 2, kind="native")],
    ),
}


def check_shape(records: list[ExceptionRecord], count: int) -> None:
    """What holds for any input."""
    for i, record in enumerate(records):
        assert record.members
        assert list(record.members) == sorted(set(record.members))
        assert record.members[0] >= 0
        assert record.members[-1] < count
        assert record.at in record.members
        assert (record.link is None) == (record.previous is None)
        seen: set[int] = set()
        step: int | None = i
        while step is not None:
            assert step not in seen, "links form a circle"
            seen.add(step)
            assert 0 <= step < len(records)
            step = records[step].previous
        assert 0 <= root_of(records, i) < len(records)


@pytest.mark.parametrize("name", FORMS)
def test_form(name: str) -> None:
    text, wanted = FORMS[name]
    records = parsed(text)
    check_shape(records, text.count("\n") + 1)
    assert [record.type for record in records] == [want.type for want in wanted]
    for i, (record, want) in enumerate(zip(records, wanted, strict=True)):
        assert record.message.startswith(want.message)
        assert len(record.frames) == want.frames
        assert record.at == want.at - 1
        assert (record.link, record.previous) == (want.link, want.previous)
        assert root_of(records, i) == (i if want.root is None else want.root)
        assert record.kind == want.kind


def test_frames_are_outermost_first_with_code() -> None:
    (record,) = parsed(
        FORMS["carets, several code lines, a repeated line, a message of three lines, then a metric line"][0]
    )
    assert record.frames == (
        Frame("train.py", 12, "<module>", "main()"),
        Frame("train.py", 8, "main", "x = attend("),
    )
    assert record.members == tuple(range(1, 14))
    (dump,) = parsed(FORMS["faulthandler"][0])
    assert [frame.function for frame in dump.frames] == ["<module>", "_conv_forward"]
    (cpp,) = parsed(FORMS["C++ terminate"][0])
    assert cpp.frames[-1].file == "/env/libc10.so"
    boxed = parsed(FORMS["rich box"][0])[0]
    assert boxed.frames[1] == Frame("/very/long/path/that/wraps/around.py", 15, "f", "raise ValueError")
    notebook = parsed(FORMS["old notebook"][0])[0]
    assert notebook.frames[0] == Frame("<ipython-input-3-abc>", 2, "<module>", "model(x)")


def test_message_ends_where_something_else_begins() -> None:
    text = "ValueError: bad value\n{}\nmore"
    for other in (
        "2024-05-01 10:00:00 INFO saving",
        "  7%|▋         | 21/300 [00:14<03:10,  1.46it/s]",
        "{'loss': 2.03, 'grad_norm': 1.1}",
        "srun: error: node1: task 0: Exited with exit code 1",
        "Killed",
        "UserWarning: leaked semaphore",
        "KeyError: 'next'",
    ):
        first = parsed(text.format(other))[0]
        assert first.message == "bad value", other


def test_a_level_or_time_of_its_own_makes_a_line_another_record() -> None:
    lines = lines_of("ValueError: bad value\nSaving the checkpoint to disk now")
    assert parse(lines)[0].members == (0, 1)
    lines[1] = Line(number=2, text=lines[1].text, quote=lines[1].quote, level="INFO")
    assert parse(lines)[0].members == (0,)


def test_level_of_the_logger_counts_as_alarm() -> None:
    said = "worker 3 says RuntimeError: out of memory"
    assert parse(lines_of(said)) == []
    (record,) = parse(lines_of(said, level="ERROR"))
    assert (record.type, record.message) == ("RuntimeError", "out of memory")


def one_traceback(rank: int, depth: int = 4) -> list[str]:
    frames = [
        said
        for i in range(depth)
        for said in (f'  File "train.py", line {10 + i}, in step{i}', f"    step{i + 1}(batch)")
    ]
    return [
        "Traceback (most recent call last):",
        *frames,
        f"RuntimeError: CUDA out of memory on GPU {rank}",
        f"rank {rank} hint",
    ]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_interleaved_with_prefixes(ranks: int, seed: int) -> None:
    shuffler = random.Random(seed)
    waiting = {rank: one_traceback(rank, depth=3 + rank) for rank in range(ranks)}
    lines: list[Line] = []
    while any(waiting.values()):
        rank = shuffler.choice([rank for rank, left in waiting.items() if left])
        said = waiting[rank].pop(0)
        lines.append(Line(number=len(lines) + 1, text=said, quote=said, rank=rank, speaker=f"rank{rank}"))
    records = parse(lines)
    check_shape(records, len(lines))
    assert len(records) == ranks
    for record in records:
        owner = lines[record.at].rank
        assert owner is not None
        assert record.message == f"CUDA out of memory on GPU {owner}\nrank {owner} hint"
        assert len(record.frames) == 3 + owner
        assert {lines[i].rank for i in record.members} == {owner}
        assert sum(line.rank == owner for line in lines) == len(record.members)


@pytest.mark.parametrize("copies", [2, 4])
def test_interleaved_copies_without_prefixes(copies: int) -> None:
    own = one_traceback(0)[:-1]
    records = parsed("\n".join(said for said in own for _ in range(copies)))
    assert [record.type for record in records] == ["RuntimeError"] * copies
    assert [len(record.frames) for record in records] == [4] * copies
    taken = [i for record in records for i in record.members]
    assert len(taken) == len(set(taken)) == len(own) * copies


def test_interleaved_copies_whose_messages_differ() -> None:
    both = zip(one_traceback(0)[:-1], one_traceback(1)[:-1], strict=True)
    records = parsed("\n".join(said for pair in both for said in pair))
    assert sorted(record.message[-1] for record in records) == ["0", "1"]
    assert [len(record.frames) for record in records] == [4, 4]


def test_files_are_read_apart() -> None:
    lines = [
        Line(number=i // 2 + 1, text=said, quote=said, file=f"rank{i % 2}.log")
        for i, said in enumerate(said for said in one_traceback(0) for _ in range(2))
    ]
    records = parse(lines)
    assert [{lines[i].file for i in record.members} for record in records] == [{"rank0.log"}, {"rank1.log"}]


def test_last_line_that_lost_its_prefix() -> None:
    body = [Line(number=i + 1, text=said, quote=said, speaker="rank2") for i, said in enumerate(one_traceback(2)[:-2])]
    tail = Line(number=len(body) + 1, text="KeyError: 'encoder'", quote="KeyError: 'encoder'")
    (record,) = parse([*body, tail])
    assert (record.type, len(record.frames), record.at) == ("KeyError", 4, len(body))
    assert record.members == tuple(range(len(body) + 1))


def test_header_alone_had_the_prefix() -> None:
    head, *rest = one_traceback(2)[:-1]
    lines = [Line(number=1, text=f"Scheduler hit an exception: {head}", quote=head, speaker="TP2")]
    lines += [Line(number=i + 2, text=said, quote=said) for i, said in enumerate(rest)]
    later = [Line(number=99, text=f"idle {i}", quote="", speaker="TP2") for i in range(50)]
    for tail in ([], later):
        (record,) = parse(lines + tail)
        assert (record.type, len(record.frames)) == ("RuntimeError", 4)
        assert record.members == tuple(range(len(lines)))
    # Without frames under any prefix, a header that other lines follow says nothing.
    assert parse(lines[:1] + later) == []


def test_watchdog_message_joins_the_stack_printed_without_its_prefix() -> None:
    head = "[E ProcessGroupNCCL.cpp:77] [Rank 4] watchdog thread terminated with exception: CUDA error: bad access"
    stack = "CUDA errors are late\nException raised from x at y.cpp:1\nframe #0: c10::Error() + 0x1 (0x2 in /l.so)"
    lines = [Line(number=1, text=head, quote=head, speaker="rank4"), *lines_of(stack)]
    (record,) = parse(lines)
    assert record.kind == "native"
    assert record.message == "CUDA error: bad access"
    assert record.frames == (Frame("/l.so", None, "c10::Error()"),)
    assert record.at == 0


def raised(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip("\n")


def test_what_this_python_prints() -> None:
    try:
        try:
            raise ValueError("inner")
        except ValueError as inner:
            raise KeyError("k") from inner
    except KeyError as error:
        caused = error
    nested = ExceptionGroup("nested", [OSError("deep"), ZeroDivisionError("zero")])
    nested.add_note("a note\nof two lines")
    try:
        raise ExceptionGroup("outer", [caused, nested, TypeError("t")])
    except ExceptionGroup as error:
        group = error
    records = parsed(raised(group))
    assert [(record.type, record.link, record.previous) for record in records] == [
        ("ExceptionGroup", None, None),
        ("ValueError", "group", 0),
        ("KeyError", "cause", 1),
        ("ExceptionGroup", "group", 0),
        ("OSError", "group", 3),
        ("ZeroDivisionError", "group", 3),
        ("TypeError", "group", 0),
    ]
    assert records[3].message == "nested (2 sub-exceptions)\na note\nof two lines"
    assert {root_of(records, i) for i in range(len(records))} == {1}
    assert records[1].frames[-1].code == 'raise ValueError("inner")'
    assert records[1].frames[-1].function == "test_what_this_python_prints"


def test_what_a_process_pool_prints(tmp_path) -> None:  # type: ignore[no-untyped-def]
    script = tmp_path / "pool.py"
    script.write_text(
        "from concurrent.futures import ProcessPoolExecutor\n"
        "def f():\n"
        "    try: {}['a']\n"
        "    except KeyError: raise ValueError('in worker')\n"
        "if __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(1) as pool: pool.submit(f).result()\n"
    )
    said = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False).stderr
    records = parsed(said.rstrip("\n"))
    assert [(record.type, record.link, record.previous) for record in records] == [
        ("KeyError", None, None),
        ("ValueError", "context", 0),
        ("ValueError", "remote", 1),
    ]
    assert [root_of(records, i) for i in range(3)] == [0, 0, 0]
    assert records[0].frames[0].code == "try: {}['a']"


def test_deep_recursion() -> None:
    body = ['  File "x.py", line 1, in f', "    f()"] * 10_000
    (record,) = parsed("\n".join(["Traceback (most recent call last):", *body, "RecursionError: maximum depth"]))
    assert (record.type, len(record.frames)) == ("RecursionError", 10_000)


def test_a_cause_of_the_group_comes_before_its_members() -> None:
    def record(link: str | None, previous: int | None) -> ExceptionRecord:
        return ExceptionRecord("E", "", (), (0,), 0, link=link, previous=previous)  # type: ignore[arg-type]

    records = [record(None, None), record("cause", 0), record("group", 1), record("cause", 2)]
    assert [root_of(records, i) for i in range(4)] == [0, 0, 0, 0]
    without_cause = [record(None, None), record("group", 0), record("group", 0), record("context", 0)]
    assert [root_of(without_cause, i) for i in range(4)] == [1, 1, 1, 1]


def test_speed_where_there_is_nothing_to_find() -> None:
    healthy = [
        Line(number=i, text=f"step {i} | loss 2.34 | grad_norm 0.5 | lr 3e-4 | tokens/s 12345 | mfu 0.45", quote="")
        for i in range(100_000)
    ]
    start = time.perf_counter()
    assert parse(healthy) == []
    assert time.perf_counter() - start < 2.0  # takes 0.15 s on one quiet core


@pytest.mark.parametrize(
    "hostile",
    [
        [
            "a" * 2000,
            "A." * 1000,
            "_A" * 900 + "Error('",
            "AError: " * 250,
            'File "' * 300,
            "| Error " * 200,
            "│ " + "/" * 1900,
        ],
        ["Traceback (most recent call last):", "During handling of the above exception, another exception occurred:"],
        ["  + Exception Group Traceback (most recent call last):", "  +-+---------------- 1 ----------------"],
        ["x.RemoteTraceback: ", '"""', "Traceback (most recent call last):"],
        ["terminate called after throwing an instance of 'x'"],
        ["Fatal Python error: x"],
    ],
    ids=["long", "chains", "groups", "remote", "terminate", "fatal"],
)
def test_cost_grows_with_the_lines_only(hostile: list[str]) -> None:
    count = 6000
    lines = lines_of("\n".join(hostile[i % len(hostile)] for i in range(count)))
    few = lines[: count // 4]
    small, large = cost(few), cost(lines)
    # Four times the lines may cost eight times as much on a busy machine; a quadratic parser would take sixteen.
    assert large < 10 * max(small, 0.02)


def cost(lines: list[Line]) -> float:
    """Seconds of processor time, the better of two runs."""
    taken = []
    for _ in range(2):
        start = time.process_time()
        check_shape_quickly(parse(lines), len(lines))
        taken.append(time.process_time() - start)
    return min(taken)


def check_shape_quickly(records: list[ExceptionRecord], count: int) -> None:
    assert all(record.at in record.members and record.members[-1] < count for record in records)


POOL = sorted({said for text, _ in FORMS.values() for said in text.split("\n")})


@settings(max_examples=600, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(POOL), st.sampled_from(["", "rank0", "rank1"]), st.integers(0, 2)), max_size=60)
)
def test_any_mix_of_traceback_lines_gives_valid_records(said: list[tuple[str, str, int]]) -> None:
    lines = [
        Line(number=i + 1, text=text[cut if cut < 2 else 0 :], quote=text, speaker=speaker)
        for i, (text, speaker, cut) in enumerate(said)
    ]
    check_shape(parse(lines), len(lines))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(max_size=80), max_size=20))
def test_any_text_gives_valid_records(said: list[str]) -> None:
    lines = [Line(number=i + 1, text=text, quote=text) for i, text in enumerate(said)]
    check_shape(parse(lines), len(lines))
