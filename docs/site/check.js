// What has to be true of the built site: a page for each document, links and anchors that
// lead somewhere, a search index, diagrams that can be drawn, and nothing from elsewhere.

import fs from 'node:fs'
import path from 'node:path'
import DOMPurify from 'dompurify'
import mermaid from 'mermaid'
import { files, pages, read, route } from './.vitepress/pages.js'

const dist = new URL('./dist/', import.meta.url).pathname
const errors = []
const must = (ok, what) => ok || errors.push(what)

const below = (dir) => fs.readdirSync(dir, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? below(path.join(dir, entry.name)) : [path.join(dir, entry.name)]))
const built = below(dist).map((file) => path.relative(dist, file))
const text = (file) => fs.readFileSync(path.join(dist, file), 'utf8')

for (const page of pages) must(built.includes(route(page).replace(/\.md$/, '.html')), `${page} is not on the site`)
for (const file of files) must(built.includes(`raw/${file}`) && built.includes(`files/${file}.html`), `${file} is not on the site`)

const html = Object.fromEntries(built.filter((file) => file.endsWith('.html') && !file.startsWith('raw/')).map((file) => [file, text(file)]))
const ids = Object.fromEntries(Object.entries(html).map(([file, page]) => [file, new Set([...page.matchAll(/ id="([^"]+)"/g)].map((m) => m[1]))]))
must(Object.keys(html).length === pages.length + files.length + 1, 'the site has pages of no document') // 404.html is one
let links = 0
for (const [file, page] of Object.entries(html)) {
  for (const [tag] of page.matchAll(/<(script|link|img|source|iframe|video|audio|object|embed|image|use)\b[^>]*>/g)) {
    must(!/\b(src|href|srcset|data|poster)="(https?:)?\/\//.test(tag), `${file} asks another server: ${tag}`)
  }
  for (const [, href] of page.matchAll(/<a\b[^>]*? href="([^"]+)"/g)) {
    if (/^[a-z]+:/.test(href)) continue
    links++
    const [link, anchor] = href.split('#', 2)
    let to = link === '' ? file : link.startsWith('/') ? link.slice(1) : path.posix.join(path.posix.dirname(file), link)
    if (to === '' || to.endsWith('/')) to += 'index.html'
    must(built.includes(to), `${file} links to ${href}: no such page`)
    if (anchor && ids[to]) must(ids[to].has(decodeURIComponent(anchor)), `${file} links to ${href}: no such heading`)
  }
}
for (const file of built.filter((name) => name.endsWith('.css'))) must(!/(url\(|@import)\s*["']?(https?:)?\/\//.test(text(file)), `${file} asks another server`)

const index = built.filter((file) => /@localSearchIndex/.test(file)).map(text).join('')
for (const page of pages) must(index.includes(`/${route(page).replace(/(index)?\.md$/, '')}`), `${page} is not in the search index`)
for (const word of ['suspense', 'traceparent', 'idempotency']) must(index.includes(word), `the search index lacks ${word}`)

Object.assign(DOMPurify, { addHook() {}, sanitize: (label) => label }) // there is no document here that labels could spoil
let diagrams = 0
for (const page of pages) {
  for (const [, diagram] of read(page).matchAll(/^```mermaid\n(.*?)^```/gms)) {
    diagrams++
    await mermaid.parse(diagram).catch((err) => errors.push(`${page}: ${err.message}`))
  }
}
must(diagrams > 0, 'no diagram was found')
must(links > 1000, `only ${links} links were followed`)

if (errors.length) {
  console.error(errors.join('\n'))
  process.exit(1)
}
console.log(`${pages.length} pages, ${files.length} other files, ${links} links, ${diagrams} diagrams: all there, and nothing from another server`)
