// Makes TypeScript types of the JSON Schemas of commands and events:
//
//   node generate.js events.d.ts          writes the file
//   node generate.js --check events.d.ts  fails where the file is not what the schemas give
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { compile } from "json-schema-to-typescript";

const schemas = new URL("../../", import.meta.url);
const commands = ["order.create", "proxy.renew"];
const others = ["asyncapi.json", "baseline.json"]; // of that directory
const names = readdirSync(schemas)
  .filter((file) => file.endsWith(".json") && !others.includes(file))
  .map((file) => file.slice(0, -".json".length))
  .sort();

const read = new Map(names.map((name) => [name, withoutRules(JSON.parse(readFileSync(new URL(`${name}.json`, schemas), "utf8")))]));
const events = names.filter((name) => !commands.includes(name));
const envelope = common(events.map((name) => read.get(name)));

const parts = ["// Made by generate.js of the schemas in docs/events. Do not edit.\n"];
parts.push(await typeOf("CloudEvent", { ...envelope, description: "What all events have." }));
for (const name of commands) parts.push(await typeOf(typeName(name), read.get(name)));
for (const name of events) parts.push(await eventType(typeName(name), read.get(name)));
parts.push(
  "/** Every event: switch on `type`. A type that is not here is newer than this file: ignore it. */\n" + union("PerennialEvent", events),
  "/** Every command. */\n" + union("PerennialCommand", commands),
);
const types = parts.join("\n");

const file = process.argv.at(-1);
if (process.argv[2] !== "--check") {
  writeFileSync(file, types);
} else if (readFileSync(file, "utf8") !== types) {
  console.error(`${file} is not what the schemas give: run npm run generate`);
  process.exit(1);
}

// The properties that are the same in all of the schemas.
function common(all) {
  const [first, ...rest] = all;
  const same = ([key, schema]) =>
    rest.every((other) => JSON.stringify(other.properties[key]) === JSON.stringify(schema) && isRequired(other, key) === isRequired(first, key));
  const properties = Object.fromEntries(Object.entries(first.properties).filter(same));
  return { type: "object", properties, required: Object.keys(properties).filter((key) => isRequired(first, key)) };
}

function isRequired(schema, key) {
  return schema.required?.includes(key) ?? false;
}

// An event is the common part and its own; its data have a name, since the service answers
// with data alone.
async function eventType(type, { description, properties, required }) {
  const [fact, place] = properties.data.allOf;
  const own = Object.entries(properties).filter(([key]) => !(key in envelope.properties));
  const event = {
    type: "object",
    description,
    properties: { ...Object.fromEntries(own), data: { ...place, description: "The fact, and its place in the journal." } },
    required: required.filter((key) => !(key in envelope.properties)),
  };
  const text = await typeOf(type, event);
  return [
    await typeOf(`${type}Data`, { ...fact, description: `The data of ${type}.` }),
    text.replace(`interface ${type} {`, `interface ${type} extends CloudEvent {`).replace(/^  data: \{/m, `  data: ${type}Data & {`),
  ].join("\n");
}

function typeOf(type, { title, ...schema }) {
  return compile(schema, type, { additionalProperties: false, bannerComment: "" });
}

// What a type cannot say: patterns, bounds, and what must not be.
function withoutRules(schema) {
  if (Array.isArray(schema)) return schema.map(withoutRules);
  if (schema === null || typeof schema !== "object") return schema;
  const rules = ["$id", "$schema", "not", "pattern", "minItems", "maxItems"];
  return Object.fromEntries(Object.entries(schema).filter(([key]) => !rules.includes(key)).map(([key, value]) => [key, withoutRules(value)]));
}

function union(type, of) {
  return `export type ${type} =\n${of.map((name) => `  | ${typeName(name)}`).join("\n")};\n`;
}

// order.delivered is OrderDelivered, and order.create OrderCreateCommand.
function typeName(name) {
  const words = name.split(".").map((word) => word[0].toUpperCase() + word.slice(1));
  return words.join("") + (commands.includes(name) ? "Command" : "");
}
