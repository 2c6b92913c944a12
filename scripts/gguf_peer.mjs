// Token ids and greedy text of llama.cpp, through node-llama-cpp (npm): node scripts/gguf_peer.mjs JOBS.json OUT.json
//
// JOBS: {"ids": [{"model": FILE, "texts": [...]}], "greedy": [{"model": FILE, "prompts": [[ids]], "tokens": N}]}.
// Run it in the folder that has node_modules.
import {createRequire} from "node:module";
import {readFileSync, writeFileSync} from "node:fs";
import {pathToFileURL} from "node:url";

const require = createRequire(process.cwd() + "/");
const {getLlama} = await import(pathToFileURL(require.resolve("node-llama-cpp")).href);
const jobs = JSON.parse(readFileSync(process.argv[2], "utf8"));
const llama = await getLlama({gpu: false, build: "never", logLevel: "error"});
const out = {ids: [], greedy: []};
for (const {model: path, texts} of jobs.ids) {
    const model = await llama.loadModel({modelPath: path, gpuLayers: 0});
    out.ids.push({model: path, ids: texts.map((text) => Array.from(model.tokenize(text, true)))});
    await model.dispose();
}
for (const {model: path, prompts, tokens} of jobs.greedy) {
    const model = await llama.loadModel({modelPath: path, gpuLayers: 0});
    const all = [];
    for (const prompt of prompts) {
        const context = await model.createContext({contextSize: 256, threads: 1, flashAttention: false});
        const sequence = context.getSequence();
        const ids = [];
        for await (const token of sequence.evaluate(prompt, {temperature: 0, yieldEogToken: true})) {
            ids.push(token);
            if (ids.length >= tokens) break;
        }
        all.push(ids);
        await context.dispose();
    }
    out.greedy.push({model: path, ids: all});
    await model.dispose();
}
writeFileSync(process.argv[3], JSON.stringify(out));
process.exit(0);
