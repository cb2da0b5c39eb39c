// Trains a folder of artifacts with onnxruntime-web: node steps_in_node.cjs FOLDER BATCHES STATE fused|two RATE
// Reads manifest.json, the checkpoint and the batches, which are safetensors; writes the state after the last step, and prints
// the losses. Nothing here knows the model.
const fs = require('fs');
const path = require('path');
const ort = require('onnxruntime-web');

const ARRAYS = { F32: ['float32', Float32Array], F64: ['float64', Float64Array], I64: ['int64', BigInt64Array], I32: ['int32', Int32Array] };

function readTensors(file) {
  const bytes = fs.readFileSync(file);
  const length = Number(bytes.readBigUInt64LE(0));
  const head = JSON.parse(bytes.subarray(8, 8 + length).toString());
  const found = {};
  delete head.__metadata__;
  for (const [name, { dtype, shape, data_offsets: [first, last] }] of Object.entries(head)) {
    const [type, kind] = ARRAYS[dtype];
    const copy = bytes.buffer.slice(bytes.byteOffset + 8 + length + first, bytes.byteOffset + 8 + length + last);
    found[name] = new ort.Tensor(type, new kind(copy), shape);
  }
  return found;
}

function writeTensors(file, tensors) {
  const head = {}, parts = [];
  let offset = 0;
  for (const [name, tensor] of Object.entries(tensors)) {
    const part = Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
    head[name] = { dtype: tensor.type === 'float32' ? 'F32' : 'F64', shape: tensor.dims, data_offsets: [offset, offset + part.length] };
    offset += part.length;
    parts.push(part);
  }
  const text = Buffer.from(JSON.stringify(head));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  fs.writeFileSync(file, Buffer.concat([length, text, ...parts]));
}

const float = (value) => new ort.Tensor('float32', Float32Array.of(value), []);
const integer = (value) => new ort.Tensor('int64', BigInt64Array.of(BigInt(value)), []);

async function main(folder, batches, target, way, rate) {
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'error';
  const manifest = JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json')));
  const state = readTensors(path.join(folder, manifest.files.checkpoint));
  const given = readTensors(batches);
  const open = (kind) => ort.InferenceSession.create(fs.readFileSync(path.join(folder, manifest.files[kind])), { executionProviders: ['wasm'] });
  const kept = [...manifest.parameters, ...manifest.buffers, ...manifest.moments];
  const trainable = manifest.parameters.filter((each) => each.offset >= 0);
  const run = async (session, feeds) => {
    const chosen = Object.fromEntries(session.inputNames.map((name) => [name, feeds[name] ?? state[name]]));
    const found = await session.run(chosen);
    for (const each of kept) if (each.output && found[each.output]) state[each.name] = found[each.output];
    return found;
  };
  const first = await open(way === 'fused' ? 'step' : 'training');
  const second = way === 'fused' ? null : await open('optimizer');
  const losses = [];
  for (let step = 1; given[`${manifest.inputs[0].name}.${step}`]; step++) {
    const feeds = { [manifest.learning_rate]: float(rate), [manifest.step]: integer(step), [manifest.gradient_scale]: float(1) };
    for (const each of [...manifest.inputs, ...manifest.labels]) feeds[each.name] = given[`${each.name}.${step}`];
    if (manifest.seed) feeds[manifest.seed] = integer(way === 'fused' ? step : step - 1);
    feeds[manifest.reset] = new ort.Tensor('bool', Uint8Array.of(1), []);
    if (second) for (const each of trainable) feeds[`${each.name}_grad.buffer`] = state[each.name];
    const found = await run(first, feeds);
    losses.push(found[manifest.loss].data[0]);
    if (second) {
      for (const each of trainable) feeds[`${each.name}_grad`] = found[`${each.name}_grad`];
      await run(second, feeds);
    }
  }
  writeTensors(target, Object.fromEntries(kept.map((each) => [each.name, state[each.name]])));
  console.log(JSON.stringify(losses));
}

const [folder, batches, target, way, rate] = process.argv.slice(2);
main(folder, batches, target, way, Number(rate)).catch((error) => { console.error(error); process.exit(1); });
