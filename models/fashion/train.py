# SPDX-License-Identifier: Apache-2.0
"""Trains the two small default classifiers on Fashion-MNIST (MIT licence) and exports them to ONNX.

    train.py DATA_DIR OUT_DIR        # DATA_DIR: the four IDX .gz files (Debian package dataset-fashion-mnist)

MobileNetV2 (width 1.0) and SqueezeNet 1.1, input f32 [N,3,224,224], output f32 [N,10] logits. An image is grey 28x28, resized to
224x224 bilinear, repeated to three channels, (v/255 - mean)/std with the usual ImageNet mean and std. Needs torch, torchvision, onnx,
onnxruntime and a GPU; about two minutes on an H200.
"""
import gzip, json, os, sys, time
import numpy as np, torch, torch.nn as nn, torch.nn.functional as F, torchvision

data, out = sys.argv[1:3]; os.makedirs(out, exist_ok=True)
torch.manual_seed(1); torch.backends.cudnn.benchmark = True
def idx(name):
    b = gzip.open(os.path.join(data, name)).read()
    nd = b[3]; dims = [int.from_bytes(b[4 + 4 * i:8 + 4 * i], "big") for i in range(nd)]
    return torch.from_numpy(np.frombuffer(b, np.uint8, offset=4 + 4 * nd).reshape(dims).copy())
xtr, ytr = idx("train-images-idx3-ubyte.gz").cuda(), idx("train-labels-idx1-ubyte.gz").long().cuda()
xte, yte = idx("t10k-images-idx3-ubyte.gz").cuda(), idx("t10k-labels-idx1-ubyte.gz").long().cuda()
MEAN = torch.tensor([.485, .456, .406]).view(1, 3, 1, 1).cuda(); STD = torch.tensor([.229, .224, .225]).view(1, 3, 1, 1).cuda()
def prep(x, size=224):
    x = F.interpolate(x[:, None].float() / 255, (size, size), mode="bilinear", align_corners=False)
    return (x.expand(-1, 3, -1, -1) - MEAN) / STD
def augment(x):
    flip = torch.rand(len(x), device="cuda") < .5
    x = torch.where(flip[:, None, None], x.flip(-1), x)
    p = F.pad(x, (2, 2, 2, 2)); i, j = np.random.randint(0, 5, 2)
    return p[:, i:i + 28, j:j + 28]
def train(model, epochs, lr, name):
    model = model.cuda().to(memory_format=torch.channels_last); bs = 256
    opt = torch.optim.SGD(model.parameters(), lr, .9, weight_decay=5e-5, nesterov=True)
    steps = epochs * (len(xtr) // bs); sched = torch.optim.lr_scheduler.OneCycleLR(opt, lr, steps, pct_start=.15); t = time.time()
    for e in range(epochs):
        model.train(); perm = torch.randperm(len(xtr), device="cuda")
        for k in range(0, len(xtr) - bs + 1, bs):
            b = perm[k:k + bs]
            with torch.autocast("cuda", torch.bfloat16):
                loss = F.cross_entropy(model(prep(augment(xtr[b])).to(memory_format=torch.channels_last)), ytr[b], label_smoothing=.05)
            opt.zero_grad(set_to_none=True); loss.backward(); nn.utils.clip_grad_norm_(model.parameters(), 2.0); opt.step(); sched.step()
        print(name, "epoch", e, f"loss {loss.item():.3f} {time.time() - t:.0f}s", flush=True)
    model.eval(); ok = 0
    with torch.no_grad():
        for k in range(0, len(xte), 500): ok += (model(prep(xte[k:k + 500])).argmax(1) == yte[k:k + 500]).sum().item()
    print(name, "test accuracy", ok / len(xte), flush=True); return model.cpu().to(memory_format=torch.contiguous_format).float(), ok / len(xte)
def export(model, path):
    x = torch.zeros(1, 3, 224, 224)
    kw = dict(input_names=["input"], output_names=["output"], opset_version=13, do_constant_folding=True, dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}})
    try: torch.onnx.export(model, x, path, dynamo=False, **kw)
    except Exception as err:
        print("legacy export failed:", str(err)[:200]); kw["opset_version"] = 18; torch.onnx.export(model, (x,), path, dynamo=True, external_data=False, **kw)
info = {}
E = int(os.environ.get("EPOCHS", "12"))
mb = torchvision.models.mobilenet_v2(num_classes=10, dropout=.1); mb, a = train(mb, E, .08, "mobilenetv2"); info["mobilenetv2_fashion.onnx"] = a
sq = torchvision.models.squeezenet1_1(num_classes=10, dropout=.2)
for m in sq.modules():
    if isinstance(m, nn.Conv2d): nn.init.kaiming_normal_(m.weight); nn.init.zeros_(m.bias)
sq, b = train(sq, E, .02, "squeezenet1_1"); info["squeezenet1_1_fashion.onnx"] = b
import onnx, onnxruntime as ort
from torchvision.io import write_png
write = lambda n, t: write_png(t, os.path.join(out, n))
picks = [int((yte == c).nonzero()[3]) for c in range(10)]
imgs = (F.interpolate(xte[picks][:, None].float(), (224, 224), mode="bilinear", align_corners=False).round().clamp(0, 255).byte().cpu())
for c in range(10): write(f"fashion_{c}.png", imgs[c].expand(3, -1, -1).contiguous())
inp = ((imgs.float() / 255).expand(-1, 3, -1, -1) - MEAN.cpu()) / STD.cpu()
for name, m in [("mobilenetv2_fashion.onnx", mb), ("squeezenet1_1_fashion.onnx", sq)]:
    p = os.path.join(out, name); export(m, p); mod = onnx.load(p); onnx.checker.check_model(mod)
    s = ort.InferenceSession(p, providers=["CPUExecutionProvider"]); y = s.run(None, {s.get_inputs()[0].name: inp.numpy()})[0]
    ref = m(inp).detach().numpy(); print(name, os.path.getsize(p), "opset", mod.opset_import[0].version, "ops", sorted({n.op_type for n in mod.graph.node}), "max diff", abs(ref - y).max(), "top1", y.argmax(1).tolist())
    np.save(p.replace(".onnx", ".output.npy"), y)
json.dump({"accuracy": info, "labels": ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]}, open(os.path.join(out, "info.json"), "w"), indent=1)
