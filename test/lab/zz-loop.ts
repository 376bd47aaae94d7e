import { Lab } from "./lab.ts";
let bad=0; const t:number[]=[], v:number[]=[], d:number[]=[];
for (let i=0;i<25;i++) { let s=performance.now(); const lab = await Lab.up({prefix:"labloop", backend: i%2?"nft":"legacy"}); t.push(performance.now()-s);
 s=performance.now(); const x=(await lab.view(["a1","a2","a3","a4","b1","b2"],["internet","sec","a4","service"])).filter(l=>/no answer/.test(l)); v.push(performance.now()-s); if(x.length){bad++; console.log(i,x.length,x.slice(0,3));} s=performance.now(); await lab.down(); d.push(performance.now()-s);}
const m=(a:number[])=>[Math.min(...a),a.sort((x,y)=>x-y)[12],Math.max(...a)].map(Math.round);
console.log("bad",bad,"up",m(t),"view of 96 probes",m(v),"down",m(d));
