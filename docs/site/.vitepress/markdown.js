// What GitHub shows and VitePress does not: links between files of the repository, anchors
// as GitHub spells them, and diagrams.

import path from 'node:path'
import { root, route, target } from './pages.js'

/** slug is the anchor of a heading, as GitHub makes it. */
export const slug = (heading) => heading.trim().toLowerCase().replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '').replaceAll(' ', '-')

/** repository changes the links of a page to where the site has what they name. */
export function repository(md) {
  md.core.ruler.push('repository', ({ tokens, env }) => {
    const page = path.relative(root, env.realPath ?? env.path)
    if (page.startsWith('docs/site/')) return
    for (const token of tokens.flatMap((t) => t.children ?? [])) {
      if (token.type !== 'link_open') continue
      const to = target(page, token.attrGet('href'))
      if (to.page) token.attrSet('href', '/' + route(to.page) + to.hash)
      if (to.file) token.attrSet('href', `/files/${to.file}.html`)
    }
  })
}

/** diagrams hands a mermaid block to the component that draws it. */
export function diagrams(md) {
  const fence = md.renderer.rules.fence
  md.renderer.rules.fence = (tokens, i, ...rest) =>
    tokens[i].info.trim() === 'mermaid' ? `<Diagram text="${encodeURIComponent(tokens[i].content)}" />` : fence(tokens, i, ...rest)
}
