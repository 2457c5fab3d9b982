// Which Markdown files are pages, in what order, and which files they link to.
// The order is that of the tables in docs/README.md: a page that is in none of them, and no
// decision, ends the build.

import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '')

const inRoot = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md']
// linkedOnly are pages that the sidebar does not list: they stand beside the tests and code
// that they are of.
const linkedOnly = [...['drills', 'faults', 'planted', 'signing', 'threats', 'traps'].map((name) => `testdata/${name}/README.md`), 'upstream/sandbox/README.md']

/** Pages are the Markdown files of the site, as paths in the repository. */
export const pages = [...inRoot, ...below('docs'), ...linkedOnly]

function below(dir) {
  return fs.readdirSync(path.join(root, dir), { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1)).flatMap((entry) => {
    const name = `${dir}/${entry.name}`
    if (entry.isDirectory()) return name === 'docs/site' || entry.name === 'node_modules' ? [] : below(name)
    return name.endsWith('.md') ? [name] : []
  })
}

/** read is a file of the repository as text. */
export const read = (file) => fs.readFileSync(path.join(root, file), 'utf8')

/** route is a page's path on the site: a README.md is the index of its directory. */
export const route = (file) => file.replace(/(^|\/)README\.md$/, '$1index.md')

const title = (file) => read(file).match(/^# (.+)$/m)[1].replaceAll('`', '')

/** target is what a link in a page leads to: a page, a file, or nothing of the repository. */
export function target(page, href) {
  if (/^([a-z]+:|#|\/\/)/i.test(href)) return {}
  const [link, anchor] = href.split('#', 2)
  let file = path.posix.join(path.posix.dirname(page), decodeURI(link)).replace(/\/$/, '')
  let hash = anchor ? `#${anchor}` : ''
  if (file === 'docs/decisions') [file, hash] = ['docs/README.md', '#decisions']
  const full = path.join(root, file)
  if (fs.existsSync(full) && fs.statSync(full).isDirectory()) file += '/README.md'
  if (!fs.existsSync(path.join(root, file))) throw new Error(`${page} links to ${href}, which does not exist`)
  return pages.includes(file) ? { page: file, hash } : { file, hash }
}

const withoutCode = (text) => text.replace(/^```.*?^```/gms, '').replace(/`[^`\n]*`/g, '')
const links = (page) => [...withoutCode(read(page)).matchAll(/\]\(([^)\s]+)\)/g)].map((m) => m[1])

/** files are the other files that pages link to: each is shown on a page of its own. */
export const files = [...new Set(pages.flatMap((page) =>
  links(page).map((href) => target(page, href).file).filter((file) => file && !/\.(svg|png)$/.test(file))))].sort()

const item = (file) => ({ text: title(file), link: '/' + route(file).replace(/index\.md$/, '').replace(/\.md$/, '.html') })

/** sidebar has a group for each of the four kinds of page in docs/README.md, and the decisions. */
export function sidebar() {
  const text = read('docs/README.md')
  const listed = new Set(['README.md', 'docs/README.md', 'CHANGELOG.md', 'SECURITY.md', ...linkedOnly])
  const groups = ['Tutorials', 'How-to guides', 'Reference', 'Explanation'].map((kind) => {
    const [table] = text.split(`\n## ${kind}\n`)[1].split('\n## ')
    const items = []
    for (const [, href] of table.matchAll(/\]\(([^)\s]+)\)/g)) {
      const { page, hash } = target('docs/README.md', href)
      if (!page || hash || listed.has(page)) continue
      listed.add(page)
      items.push(item(page))
    }
    return { text: kind, items }
  })
  const decided = pages.filter((page) => page.startsWith('docs/decisions/'))
  decided.forEach((page) => listed.add(page))
  const missing = pages.filter((page) => !listed.has(page))
  if (missing.length) throw new Error(`docs/README.md lists no ${missing.join(', ')}`)
  return [
    { text: 'Perennial', items: [{ text: 'What it is', link: '/' }, { text: 'All documents, words', link: '/docs/' }, item('CHANGELOG.md'), item('SECURITY.md')] },
    ...groups,
    { text: 'Decisions', collapsed: true, items: decided.map(item) },
  ]
}
