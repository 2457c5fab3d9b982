// The site is made of the repository's Markdown files where they lie: nothing is copied.

import fs from 'node:fs'
import path from 'node:path'
import { defineConfig } from 'vitepress'
import { diagrams, repository, slug } from './markdown.js'
import { files, root, route, sidebar } from './pages.js'

const icon = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="%232e7d4f"/><path d="M11 25V7h6a5.5 5.5 0 0 1 0 11h-6" fill="none" stroke="white" stroke-width="3"/></svg>'

/** Pages lie above node_modules and cannot find Vue: what writes them as HTML brings the one that it uses. */
const vue = {
  name: 'vue',
  enforce: 'pre',
  resolveId: (id, _, options) => (options.ssr && /^vue(\/|$)/.test(id) ? { id, external: true } : undefined),
}

/** Words of the index and of what is searched for: a name such as max_total_cents, and its parts. It runs in the browser, too. */
function words(text) {
  return (text.match(/[\p{L}\p{M}\p{N}_]+/gu) ?? []).flatMap((word) => (word.includes('_') ? [word, ...word.split('_')] : [word]))
}

export default defineConfig({
  title: 'Perennial',
  description: 'Renews rented proxy IPs once in effect, whatever crashes, and keeps the books to the cent.',
  lang: 'en',
  base: process.env.SITE_BASE ?? '/', // where the site lies on its server
  srcDir: '../..',
  outDir: 'dist',
  srcExclude: ['!(docs|testdata|upstream)/**/*', 'testdata/!(drills|faults|planted|signing|threats|traps)/**', 'upstream/!(sandbox)/**', '**/node_modules/**'],
  rewrites: (page) => (page.startsWith('docs/site/file/') ? page.replace('docs/site/file/', 'files/') : route(page)),
  head: [['link', { rel: 'icon', href: `data:image/svg+xml,${icon.replaceAll('"', "'")}` }]],
  markdown: {
    anchor: { slugify: slug },
    toc: { slugify: slug },
    config(md) {
      md.use(repository)
      md.use(diagrams)
    },
    languageAlias: { conf: 'nginx', promql: 'txt' },
  },
  themeConfig: {
    nav: [
      { text: 'Get started', link: '/docs/tutorials/get-started.html' },
      { text: 'Operate', link: '/docs/operations.html' },
      { text: 'Integrate', link: '/docs/events/' },
      { text: 'Reference', link: '/docs/cli.html' },
      { text: 'Changelog', link: '/CHANGELOG.html' },
    ],
    sidebar: sidebar(),
    outline: [2, 3],
    search: { provider: 'local', options: { detailedView: true, miniSearch: { options: { tokenize: words }, searchOptions: { combineWith: 'AND', fuzzy: 0.1, prefix: true, boost: { title: 4, text: 2, titles: 1 } } } } },
    docFooter: { prev: false, next: false },
  },
  vite: {
    plugins: [vue],
    publicDir: false,
    build: { chunkSizeWarningLimit: 1000 }, // of kilobytes: diagrams and the search index are loaded when they are needed
  },
  buildEnd({ outDir }) {
    for (const file of files) {
      fs.mkdirSync(path.dirname(path.join(outDir, 'raw', file)), { recursive: true })
      fs.copyFileSync(path.join(root, file), path.join(outDir, 'raw', file))
    }
  },
})
