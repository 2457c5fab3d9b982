// Holds AsyncAPI documents against the official parser: `node check.mjs FILE…` fails on
// any error or warning. A file that is a JSON Schema has to compile as Ajv does it in its
// strict mode. Payloads are JSON Schemas of draft 2020-12, which the parser does
// not know by itself: Ajv compiles each, and holds the examples against it.
import { fromFile, Parser } from '@asyncapi/parser'
import Ajv2020 from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { readFileSync } from 'node:fs'

const draft2020 = {
  getMimeTypes: () => ['application/schema+json;version=draft-2020-12'],
  parse: (input) => input.data,
  validate(input) {
    try {
      compiler().compile(input.data)
      return []
    } catch (error) {
      return [{ message: error.message, path: input.path }]
    }
  },
}

// compiler is new for each schema: those of the files have an $id, and stand in several
// channels. Extensions of the parser begin with x-.
function compiler() {
  const ajv = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false, allowUnionTypes: true })
  addFormats(ajv)
  return ajv.addKeyword('x-parser-schema-id')
}

// badExamples are those that do not fit the schema of their message.
function badExamples(document) {
  const bad = []
  for (const message of document.allMessages().all()) {
    const validate = compiler().compile(plain(message.payload().json()))
    for (const example of message.examples().all()) {
      if (!validate(example.payload())) {
        bad.push(`${message.name()}: ${JSON.stringify(validate.errors)}`)
      }
    }
  }
  return bad
}

const plain = (schema) => schema.schema ?? schema

// compiles reports whether a subscriber that validates by Ajv, with strict: true, can.
function compiles(file, schema) {
  try {
    addFormats(new Ajv2020({ strict: true })).compile(schema)
    return true
  } catch (error) {
    console.error(`${file}: ${error.message}`)
    return false
  }
}

let failed = false
for (const file of process.argv.slice(2)) {
  const content = JSON.parse(readFileSync(file, 'utf8'))
  if (content.$schema) {
    failed = !compiles(file, content) || failed
    continue
  }
  const parser = new Parser()
  parser.registerSchemaParser(draft2020)
  const { document, diagnostics } = await fromFile(parser, file).parse()
  const grave = diagnostics.filter((d) => d.severity <= 1) // 0 is an error, 1 a warning
  const complaints = grave.map((d) => `${d.path.join('/')}: ${d.message} (${d.code})`)
  if (document) {
    complaints.push(...badExamples(document))
  }
  if (!document || complaints.length > 0) {
    failed = true
    console.error([`${file} is not accepted:`, ...complaints].join('\n  '))
    continue
  }
  console.log(`${file}: accepted, AsyncAPI ${document.version()}, ${document.channels().length} channels, ${document.operations().length} operations`)
}
process.exit(failed || process.argv.length < 3 ? 1 : 0)
