// Asks the search of a built site as its pages do: with the site's own worker, which has no browser here.
// node site_search.mjs SITE < QUERIES, one a line; prints for each the address of the first hit, or an empty line.
import { readdirSync, readFileSync } from "node:fs"
import vm from "node:vm"

const SETUP = 0, QUERY = 2 // kinds of messages to the worker

const site = process.argv[2]
const folder = `${site}/assets/javascripts/workers`
const [worker] = readdirSync(folder).filter(name => /^search\..*\.js$/.test(name))
let hear, answer
const world = { console, addEventListener: (_, listener) => { hear = listener }, postMessage: message => { answer = message } }
world.self = world
vm.runInNewContext(readFileSync(`${folder}/${worker}`, "utf8"), world)

const index = JSON.parse(readFileSync(`${site}/search/search_index.json`, "utf8"))
await hear({ data: { type: SETUP, data: { ...index, options: { suggest: false } } } })
for (const query of readFileSync(0, "utf8").trim().split("\n")) {
    await hear({ data: { type: QUERY, data: query } })
    console.log(answer.data.items[0]?.[0].location ?? "")
}
