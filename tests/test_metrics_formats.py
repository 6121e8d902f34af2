"""Formats that trainers print, and the numbers that must come out of them."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwreck.diagnosis import Line
from trainwreck.metrics.formats import Series, read_series


def lines_of(log: str) -> list[Line]:
    return [
        Line(number, segment, segment)
        for number, physical in enumerate(log.split("\n"), 1)
        for segment in physical.split("\r")
    ]


def read(log: str) -> dict[tuple[str, str], Series]:
    return {(one.name, one.split): one for one in read_series(lines_of(log))}


def values(log: str, name: str, split: str = "") -> list[float]:
    one = read(log).get((name, split))
    return [point.value for point in one.points] if one else []


FORMS = [
    ("hf", "{'loss': 2.31, 'grad_norm': 1.02, 'learning_rate': 5e-05, 'epoch': 0.01}", "loss", "", [2.31]),
    ("hf strings", "{'loss': '4.354', 'grad_norm': '1.5', 'epoch': '0.01'}", "grad_norm", "", [1.5]),
    ("hf nan filter", "{'loss': '0', 'grad_norm': 'nan', 'epoch': '0.3'}", "grad_norm", "", [math.nan]),
    ("hf eval", "{'eval_loss': 1.03, 'eval_accuracy': 0.81, 'epoch': 1.0}", "loss", "validation", [1.03]),
    ("hf eval metric", "{'eval_loss': 1.03, 'eval_accuracy': 0.81}", "accuracy", "validation", [0.81]),
    ("table, |g|", "step   loss     |g|\n100    3.21   0.51\n200    3.05   0.48", "grad_norm", "", [0.51, 0.48]),
    ("json", '{"step": 7, "loss": NaN, "grad_norm": 0.2, "lr": 9e-05}', "loss", "", [math.nan]),
    ("json strings", '{"epoch": 1, "loss": "8.1", "num_updates": "2400", "gnorm": "1.3"}', "grad_norm", "", [1.3]),
    (
        "megatron",
        " iteration 10/ 100 | learning rate: 1.5E-04 | lm loss: 2.4E+00 | loss scale: 1.0 | grad norm: 0.309 |"
        " params norm: 800.1 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        "loss",
        "",
        [2.4],
    ),
    (
        "megatron norm",
        " iteration 10/ 100 | lm loss: 2.4E+00 | grad norm: 0.309 | params norm: 800.1 |",
        "grad_norm",
        "",
        [0.309],
    ),
    ("megatron scale", " iteration 10/ 100 | lm loss: 2.4E+00 | loss scale: 32.0 |", "loss_scale", "", [32.0]),
    (
        "megatron nan count",
        " iteration 10/ 100 | loss scale: 1.0 | number of nan iterations:   3 |",
        "loss",
        "",
        [math.nan],
    ),
    ("megatron NAN", " iteration 10/ 100 | lm loss: NAN | grad norm: INF |", "grad_norm", "", [math.inf]),
    (
        "megatron valid",
        " validation loss at iteration 10 | lm loss value: 2.11E+00 | lm loss PPL: 8.2 |",
        "loss",
        "validation",
        [2.11],
    ),
    (
        "nemo",
        "Epoch 0: 3%| | 300/10000 [21:11<11:25, reduced_train_loss=7.120, global_step=299.0]",
        "loss",
        "train",
        [7.12],
    ),
    ("deepspeed lr", "[Rank 0] step=10, skipped=0, lr=[0.0002], mom=[(0.9, 0.95)]", "learning_rate", "", [0.0002]),
    (
        "deepspeed overflow",
        "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
        "loss_scale",
        "",
        [32768.0],
    ),
    (
        "deepspeed skip",
        "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
        "skipped",
        "",
        [1.0],
    ),
    ("apex", "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 0.5", "loss_scale", "", [0.5]),
    (
        "fairseq scale",
        "NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 16.0",
        "loss_scale",
        "",
        [16.0],
    ),
    ("paddle scale", "Found inf or nan, current scale is: 2.0, decrease to: 2.0*0.5", "loss_scale", "", [1.0]),
    (
        "torchtitan",
        "step: 10  loss:  2.3085  grad_norm:     nan  memory: 46.12GiB(58.3%)  tps: 6,080",
        "grad_norm",
        "",
        [math.nan],
    ),
    ("torchtitan speed", "step: 10  loss:  2.3085  memory: 46.12GiB(58.3%)  tps: 6,080", "throughput", "", [6080.0]),
    ("nanogpt", "iter 10: loss 2.3, time 100.12ms, mfu 3.1%", "loss", "", [2.3]),
    ("nanogpt train", "step 500: train loss 1.2, val loss 1.3", "loss", "train", [1.2]),
    ("nanogpt val", "step 500: train loss 1.2, val loss 1.3", "loss", "validation", [1.3]),
    (
        "llm.c",
        "step  12/121 | loss 4.305 (+1.68z)| norm 0.8427 (+0.7z)| lr 6.00e-04 | 811 ms",
        "grad_norm",
        "",
        [0.8427],
    ),
    (
        "keras",
        "Epoch 1/10\n98/98 [=====] - 4s 41ms/step - loss: 2.3 - accuracy: 0.1 - val_loss: 2.2",
        "loss",
        "validation",
        [2.2],
    ),
    ("keras 3", "98/98 ━━━━ 4s 41ms/step - accuracy: 0.1000 - loss: 2.3000", "accuracy", "", [0.1]),
    (
        "lightning",
        "Epoch 3: 55%|██ | 22/40 [00:50<00:30,  4.3it/s, v_num=7, train_loss_step=0.208]",
        "loss",
        "train",
        [0.208],
    ),
    ("plain pipes", "Epoch 3 | Train Loss: 0.2 | Val Loss: 0.3", "loss", "validation", [0.3]),
    ("plain words", "epoch 3 step 100 loss 2.3 lr 1e-4 gnorm 1.2", "grad_norm", "", [1.2]),
    ("separate lines", "Epoch 0:\nTrain loss 0.34\nValid loss: 5.1", "loss", "validation", [5.1]),
    ("brackets", "[100/1000] loss: 2.3", "loss", "", [2.3]),
    (
        "fairseq",
        "| epoch 002: 95 / 5005 loss=4.905, nll_loss=4.562, ppl=29.97, num_updates=5100, gnorm=0.8",
        "loss",
        "",
        [4.905],
    ),
    (
        "fairseq valid",
        "| valid | epoch 012 | valid on 'valid' subset | loss 6.110 | ppl 69.09",
        "loss",
        "validation",
        [6.11],
    ),
    ("xgboost", "[10]\ttrain-logloss:0.3\tvalid-logloss:0.4", "loss", "validation", [0.4]),
    ("lightgbm", "[100]\ttraining's binary_logloss: 0.31\tvalid_1's binary_logloss: 0.35", "loss", "train", [0.31]),
    ("catboost", "250:\tlearn: 0.28\ttest: 0.46\tbest: 0.45 (211)\ttotal: 5.2s", "loss", "validation", [0.46]),
    (
        "detectron2",
        "eta: 5:41:59  iter: 19  total_loss: 1.24  loss_cls: 0.49  lr: 0.02  max_mem: 4211M",
        "loss",
        "",
        [1.24],
    ),
    (
        "mmengine",
        "Epoch(train)  [1][ 150/7330]  lr: 2e-02  grad_norm: 8.23  loss: 1.31  loss_cls: 0.72",
        "loss",
        "train",
        [1.31],
    ),
    ("maxtext", "completed step: 10, seconds: 5.543, TFLOP/s/device: 193.0, loss: 2.3", "loss", "", [2.3]),
    ("clu", "[2000] grad_norm=0.49407, learning_rate=0.001, loss=3.39894, steps_per_sec=1.6", "loss", "", [3.39894]),
    ("timm", "Train: 3 [  50/1251 (  4%)]  Loss: 6.958 (7.03)  Time: 0.4s  LR: 4.000e-03", "loss", "train", [6.958]),
    (
        "imagenet",
        "Epoch: [22][3000/5005]\tTime  0.802 ( 0.818)\tLoss nan (nan)\tAcc@1  55.00 ( 49.5)",
        "loss",
        "",
        [math.nan],
    ),
    (
        "icefall",
        "Epoch 1, batch 300, loss[loss=0.42, simple_loss=0.46], tot_loss[loss=0.40, simple_loss=0.4]",
        "loss",
        "",
        [0.42],
    ),
    (
        "olmo",
        "[step=18800/188040,epoch=3]\n    optim/total_grad_norm=0.89\n    train/CrossEntropyLoss=2.7",
        "loss",
        "train",
        [2.7],
    ),
    ("mindspore", "epoch: 4 step: 900, loss is 0.6679594", "loss", "", [0.6679594]),
    (
        "marian",
        "Ep. 8 : Up. 9000 : Cost 3.2075 * 8,199,000 @ 10,627 : gNorm 0.6920 : L.r. 9.0000e-04",
        "loss",
        "",
        [3.2075],
    ),
    ("darknet", " 812: 2.298, 2.31 avg loss, 0.010000 rate, 1.898106 seconds, 51968 images", "loss", "", [2.298]),
    ("csv", "epoch,train_loss,val_loss,lr\n0,4.1,4.2,0.1\n1,3.9,4.3,0.1", "loss", "train", [4.1, 3.9]),
    (
        "fastai",
        "epoch     train_loss  valid_loss  accuracy  time\n0         0.91    0.40    0.86  00:41",
        "loss",
        "validation",
        [0.4],
    ),
    ("notebook", "Step\tTraining Loss\n10\t1.82\n20\t2.10", "loss", "train", [1.82, 2.1]),
    (
        "ultralytics",
        "Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
        "  1/100      7.82G      1.209     0.8465     0.9675         17        640: 100%|███| 462/462 [00:30<00:00]",
        "loss",
        "train",
        [1.209],
    ),
    (
        "markdown",
        "| epoch  | train    | valid    |\n|--------|------|------|\n|   10  |  0.87 |  0.80 |",
        "loss",
        "validation",
        [0.8],
    ),
    (
        "boxed",
        "|    learning_rate        | 0.03        |\n|    loss                 | 22          |",
        "loss",
        "",
        [22.0],
    ),
    ("tensor", "loss: tensor(0.512, device='cuda:0')", "loss", "", [0.512]),
    ("glued", "step_78540:\tloss_-4.065", "loss", "", [-4.065]),
    ("tf", "ERROR:tensorflow:Model diverged with loss = NaN.", "loss", "", [math.nan]),
    (
        "policy loss",
        "step:61 - actor/pg_loss:0.010 - actor/grad_norm:0.209 - actor/lr:1e-06",
        "aux:actor_pg_loss",
        "",
        [0.01],
    ),
]


@pytest.mark.parametrize(("log", "name", "split", "expected"), [form[1:] for form in FORMS], ids=[f[0] for f in FORMS])
def test_a_form_gives_its_numbers(log: str, name: str, split: str, expected: list[float]) -> None:
    assert values(log, name, split) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    "log",
    [
        "    loss = criterion(outputs, targets)",
        "loss: CrossEntropyLoss",
        "    loss = 0.5 * loss_a + loss_b",
        'File "train.py", line 12, in step\n    total_loss = 0.0',
        "max_grad_norm: 1.0",
        "label_smoothing: 0.1, loss_weight: 2.0, best val loss 1.33",
        "logit_scale: 41.2",
        "Trainer(gradient_clip_val=1.0)",
        "Namespace(arch='resnet50', lr=8.0, batch_size=256)",
        "RuntimeError: train loss 9.44 exceeds outlier_multiplier (2) x running mean 2.01",
        "The quick brown fox lost 3 shoes and its scale of values",
    ],
)
def test_settings_source_code_and_prose_are_no_metrics(log: str) -> None:
    assert not {"loss", "grad_norm", "loss_scale", "learning_rate"} & {name for name, _ in read(log)}


def test_the_loss_scale_is_never_the_loss() -> None:
    log = " iteration 10/ 100 | loss scale: 65536.0 | number of skipped iterations:  10 |"
    assert values(log, "loss") == []
    assert values(log, "skipped") == [10.0]


def test_step_epoch_and_line_of_a_point() -> None:
    log = "start\nEpoch: [2][300/5005]\tLoss 1.9 (2.0)\n{'loss': 1.8, 'epoch': 2.5}\nstep: 7, loss: 1.7"
    points = read_series(lines_of(log))[0].points
    assert [(p.index, p.step, p.epoch) for p in points] == [(1, 300, 2), (2, None, 2.5), (3, 7, 2.5)]


def test_a_heading_gives_its_step_to_the_lines_below() -> None:
    log = "[batch=1451/14540]:\n\t Train loss/train/total: 3.29\n\t Train l2_norm/grad/global: 1.89"
    series = read(log)
    assert series["loss", "train"].points[0].step == 1451
    assert series["grad_norm", ""].points[0].step == 1451


def test_ranks_have_series_of_their_own() -> None:
    lines = [Line(i + 1, f"step {i} loss {2.0 + rank}", "", rank=rank) for i in range(3) for rank in (0, 1)]
    found = {one.rank: [p.value for p in one.points] for one in read_series(lines)}
    assert found == {0: [2.0, 2.0, 2.0], 1: [3.0, 3.0, 3.0]}


def test_updates_of_one_progress_bar_that_repeat_a_value_count_once() -> None:
    bar = "\r".join(f"Epoch 0: {i}%| | {i}/100 [00:01<00:09, loss={2.0 if i < 50 else 1.5}]" for i in range(100))
    assert values(bar, "loss") == [2.0, 1.5]


def test_losses_of_adversarial_training_never_stand_in_for_the_loss() -> None:
    log = "\n".join(f"[1/200][{i}/782] Loss_D: 0.61 Loss_G: 2.41 D(x): 0.74" for i in range(5))
    assert {name for name, _ in read(log)} == {"aux:loss_d", "aux:loss_g"}


def test_a_step_skipped_for_its_norm_is_no_report_of_the_norm() -> None:
    log = "2022-10-30 WARNING: The grad norm is nan. Skipping updating the model."
    assert values(log, "grad_norm") == []
    assert values(log, "skipped") == [1.0]


def test_an_announced_evaluation_gives_the_split() -> None:
    log = "step 469/469 - loss: 0.70\nEval begin...\nstep 79/79 - loss: 0.60\nEpoch 2/9\nstep 469/469 - loss: 0.50"
    assert values(log, "loss") == [0.7, 0.5]
    assert values(log, "loss", "validation") == [0.6]


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="los grad_norm:=|[]'\"0123456789.,-eEnaif/%\t\r\n", max_size=300))
def test_any_text_is_read_without_error(text: str) -> None:
    for one in read_series(lines_of(text)):
        assert one.points


@pytest.mark.parametrize(
    "text",
    [
        "loss: " * 2000,
        "loss" + " " * 5000,
        "loss 1" + ",111" * 3000,
        "a.b/c-" * 2000 + "loss 1",
        "| a" * 4000 + " loss",
        "loss = -" * 2000,
    ],
)
def test_a_hostile_line_costs_no_more_than_a_long_one(text: str) -> None:
    begin = time.perf_counter()
    read_series([Line(1, text, text)] * 50)
    assert time.perf_counter() - begin < 1.0
