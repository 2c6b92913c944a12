// llama.cpp beside `gorgon dev suite cpu --llama-cpp FOLDER`, through the npm package node-llama-cpp.
//
// usage: node llama_cpp_peer.mjs FOLDER MODEL.gguf THREADS, with FOLDER the one that has node_modules. Prints a line when
// ready. Then answers each line on standard input with a line of JSON:
//   decode      tokens per second of 48 greedy tokens after a prompt of 64, prefill apart
//   prefill N   seconds of reading N tokens into an empty context
//   verify N    seconds of a pass over N tokens after a prompt of 64, with the greedy token of each: median of five
//   tokens      the greedy tokens after the prompt, to see that it is the same model
import {createInterface} from "node:readline";
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

const [folder, file, threads] = process.argv.slice(2);
const entry = createRequire(`${folder}/`).resolve("node-llama-cpp");
const {getLlama} = await import(pathToFileURL(entry));
const llama = await getLlama({gpu: false, build: "never", maxThreads: Number(threads), logLevel: "error"});
const model = await llama.loadModel({modelPath: file});
const context = await model.createContext({contextSize: 1024, batchSize: 512, threads: Number(threads)});
const sequence = context.getSequence();
const prompt = length => Array.from({length}, (_, i) => (i * 97 + 11) % 32000);
const greedy = {temperature: 0, yieldEogToken: true};
const now = () => performance.now() / 1000;

async function decode(tokens) {
    await sequence.clearHistory();
    const found = [];
    let started = 0;
    for await (const token of sequence.evaluate(prompt(64), greedy)) {
        // The first token comes with the prompt.
        if (found.length === 0) started = now();
        found.push(token);
        if (found.length > tokens) break;
    }
    return {seconds: now() - started, found};
}

async function prefill(length) {
    await sequence.clearHistory();
    const started = now();
    for await (const _ of sequence.evaluate(prompt(length), greedy)) break;
    return now() - started;
}

async function verify(length) {
    await sequence.clearHistory();
    await sequence.evaluateWithoutGeneratingNewTokens(prompt(64));
    const rows = prompt(length).map(token => [token, {generateNext: {token: true, options: {temperature: 0}}}]);
    const times = [];
    for (let i = 0; i < 5; i++) {
        const started = now();
        await sequence.controlledEvaluate(rows);
        times.push(now() - started);
        await sequence.eraseContextTokenRanges([{start: 64, end: sequence.nextTokenIndex}]);
    }
    return times.sort((a, b) => a - b)[2];
}

await decode(4);
console.log("ready");
for await (const line of createInterface({input: process.stdin})) {
    const [what, count] = line.trim().split(" ");
    const answer = what === "prefill" ? {seconds: await prefill(Number(count))}
        : what === "verify" ? {seconds: await verify(Number(count))}
        : what === "tokens" ? {tokens: (await decode(16)).found}
        : {tokens_per_second: 48 / (await decode(48)).seconds};
    console.log(JSON.stringify(answer));
}
process.exit(0);
