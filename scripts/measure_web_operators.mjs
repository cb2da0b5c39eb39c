// Loads models with onnxruntime-web: node measure_web_operators.mjs FOLDER FIRST COUNT
// One line per model: its number, a tab, and nothing (loaded) or the reason. A broken WebAssembly instance ends the process
// with code 3, so that the caller starts a new one at the next model.
import * as ort from 'onnxruntime-web';
import { readFileSync } from 'fs';
const [folder, first, count] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'fatal';
const options = { executionProviders: ['wasm'], graphOptimizationLevel: 'disabled', logSeverityLevel: 4 };
async function load(name) {
  const session = await ort.InferenceSession.create(readFileSync(`${folder}/${name}.onnx`), options);
  await session.release();
}
for (let index = first; index < count; index++) {
  let reason = '';
  try { await load(index); } catch (error) { reason = String(error.message || error).replace(/\s+/g, ' ') || 'refused'; }
  process.stdout.write(`${index}\t${reason}\n`);
  if (reason) { try { await load('healthy'); } catch { process.exit(3); } }
}
