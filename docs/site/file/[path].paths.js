// A page for each file that is no Markdown and that a page links to.

import { files, read } from '../.vitepress/pages.js'

const most = 50_000 // bytes that are shown; what is longer is there as a file

export default {
  paths: () => files.map((file) => {
    const text = read(file)
    const language = { service: 'ini', yml: 'yaml' }[file.split('.').pop()] ?? (file.includes('.') ? file.split('.').pop() : 'txt')
    const fence = '````'
    return { params: { path: file }, content: text.length > most ? `It has ${text.length} bytes.` : `${fence}${language}\n${text}${fence}\n` }
  }),
}
