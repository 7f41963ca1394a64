"""Names of people in Chinese, Japanese and Korean script: family names, given names, and where a
family name ends.

A name is written family name first, mostly without a blank: `王小明`, `田中太郎`, `김민수`. The lists are
Faker's and those below; a family name of two characters counts before one of one character (`欧阳修`
is 欧阳 and 修).
"""  # noqa: E501

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.array_types import I64, Mask
from sanitize.core.keys import draw_index

EAST_ASIAN_CLASS = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Hangul}"
EAST_ASIAN_WORD = rf"\A[{EAST_ASIAN_CLASS}]+\z"
CHINESE, TAIWANESE, JAPANESE, KOREAN = "zh_CN", "zh_TW", "ja_JP", "ko_KR"
LANGUAGES = (CHINESE, TAIWANESE, JAPANESE, KOREAN)
MIN_DISTINCTIVE_CHARACTERS = 3

# family names of two characters
_CHINESE_DOUBLE_FAMILY_NAMES = (
    "欧阳 司马 上官 诸葛 东方 夏侯 皇甫 尉迟 公孙 慕容 令狐 宇文 长孙 司徒 司空 独孤 南宫 端木 轩辕"
    " 呼延 闻人 申屠 太史 公冶 淳于 澹台 "
    "钟离 鲜于 闾丘 亓官 百里 东郭 南门 羊舌 第五 赫连 拓跋 完颜 西门 万俟 濮阳 单于 宗政 纳兰 歐陽"
    " 司馬 諸葛 東方 尉遲 公孫 長孫 獨孤 "
    "南宮 軒轅 鮮于 赫連 完顏 西門"
)
# beside Faker's: further family names, and their traditional forms
_CHINESE_FAMILY_NAMES = (
    "区 仇 阚 佘 佟 宓 郗 郜 郏 郄 郝 逄 酆 闫 阎 隗 麹 麴 寇 尧 尤 屠 展 岑 嵇 巩 巫 帅 幸 庾 弓"
    " 归 戎 戚 战 扈 敖 晁 晏 晋 曲 曾 木 朴 "
    "杭 杞 栗 桂 桑 植 楚 樊 欧 殷 母 毋 池 沃 沙 泮 洪 涂 湛 滕 漆 濮 焦 燕 牟 牛 狄 瞿 祁 禹 种"
    " 禤 窦 竺 笪 米 糜 练 缪 翁 翟 聂 臧 艾 "
    "芮 苑 苗 英 范 茅 荆 荀 荣 莘 莫 葛 蒙 蒲 蓝 蔚 蔺 蔻 虞 裘 覃 解 訾 谌 谈 谷 贲 赖 赵 迟 逯"
    " 邝 邢 邬 邰 邱 邵 邸 郁 郎 郦 郸 鄂 鄢 "
    "鄞 钮 铁 阙 阮 隋 雍 靳 鞠 饶 骆 鲍 麦 黎 齐 龚 張 劉 陳 楊 趙 黃 吳 孫 馬 羅 鄭 謝 許 韓 鄧"
    " 葉 蕭 蔣 餘 於 蘇 呂 盧 賈 鄒 閻 陸 譚 "
    "萬 賴 龍 錢 湯 喬 賀 龔 嚴 顧 萊 倪 單 畢 鄔 駱 聶 齊 莊 紀 紅 連 鐘 鍾 顏 簡 饒 闕 溫 塗 藍"
    " 詹 麥 甯 韋 關 歐 嚮 鮑 竇 鞏 鄺 華 童 "
    "時 費 蘭 龐 陶 車 霍 賓 項 寧 應 練"
)
# the families of which most people in China are, without those whose character is as often a word
# of the language
FREQUENT_CHINESE_FAMILY_NAMES = (
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯董程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏钟汪田任姜范姚谭廖邹熊陆郝"
    "孔崔康毛邱秦江史顾侯邵孟龙段雷钱汤尹黎武乔贺赖龚文庞樊殷施陶洪翟安颜倪严牛温芦季俞章鲁葛伍韦申尤毕聂焦柳邢骆岳齐梅莫庄辛管祝左涂谷"
    "祁耿牟卜路詹关苗凌费纪靳盛童欧甄项曲游阳裴席卫查屈鲍覃霍翁隋甘景薄单包司柏宁柯阮桂闵解强柴华车冉房边萧方石金白常張劉陳楊趙黃吳孫馬"
    "羅鄭謝韓馮鄧許蘇呂盧蔣賈葉閻餘鍾鐘譚鄒陸顧龍錢湯喬賀賴龔龐嚴顏溫蘆魯韋畢聶駱齊莊紀連費項衛關蕭歐陽簡"
)
# characters of given names; others may occur, and are accepted only where both ends of the name are
# known
CHINESE_GIVEN_NAME_CHARACTERS = (
    "伟芳娜秀英敏静丽强磊军洋勇艳杰娟涛明超兰霞平刚桂华玉建国文志红春梅海燕玲晓雪萍飞鹏浩宇俊峰鑫波斌辉健帅旭宁龙凯帆琳丹晶婷欢佳嘉欣雨怡"
    "梓涵子轩然宸泽诗琪思雅梦瑶瑾瑜瑞祥庆福荣贵富成林森树松柏柳杨桃莉莲荷菊芬芝芸茜菲蓉蕾薇萌蓓蕊诚信义仁礼智忠孝廉德贤良善美慧惠淑贞洁清"
    "秋冬夏晨曦阳光昊天宏达远航翔云霄岩山川江河湖滨洲涌润沛溪澜潇源淼鸿鹤鹰凤凰麟虎豹骏马腾跃进步胜利兴旺盛昌隆康安和乐喜悦爱珍珠宝琼琴瑟"
    "琦琛璐璇珊珂珺玥颖彤彩虹青蓝紫绿洪彬彦彪武威力毅坚定恒永久长生寿彭学博书翰墨词才艺雯霖霜露雷震晖昕晟晋景煜烨炜焕炎炳煌灿熙莺鹃鸣鹂冰"
    "凌寒妍妮姗姝娅娇婉婧嫣媛婵嬿琬卿君妃若如依伊佩倩俏仪伦伯仲叔季孟元亨乾坤正方圆启迪开拓创新立业功勋铭钢铁锋锐钧钰铮锦银金发财有为向东"
    "西南北卫保民邦家豪雄奇岳峻岭嵩峦崇尚高升登科举榜哲圣希望承继绍祖宗耀庭训教导朗亮皓皎月星辰宙寰球世代传可心怀念恩慈悠恬逸致韵律歌舞音"
    "笑语言谨慎勤俭朴素真友谊亲邻睦融洽全顺畅通运昱冉翼羽翎飘飒爽舒展欧亚非丁乙一万大小中上夫之少仕任侠伶俐偲傲冠凡初刘劲化卓双史吉同名吟"
    "咏唐堂壮声多夕奕奎好妙姣娴存孜宜实宣容宽密寅尧尔巍左巧己帝常干年庚应廷弘张影徐微徽必忆快性恺悟情惜意愉愿慕慨懿戈扬振捷敬斐旻昂易晗晚"
    "晴暄暖曼曾朋木朵权材来果枫柔栋桐梁棋棠楠榕槐樱殊毓水沁沐泉泰泳津洛涓淇渊温湘漫漪潮澄激灏灵炫烁焱熠牧特献率玄玖玮珏珑理琨瑗璞甜田甲申"
    "留略益盈睿知石砚碧祎祺禄秉秦程稳穆童竹笛筠策筱简米粒精纯纪纲维绮绯缘罗群羲翠聪胤能舟色艾芃花芷苏苑苗茂茗茵荃莎莹菁萱落葆董蒙蔚薪藻蝶"
    "衡裕裴誉谦贝资赫越路轶迅逍遥遵郁郎采里重野钊锡镇镜闻阔队隽雁集霁靖韦韬颂颐风香馨驰骁骥魁鲁鹿麒黎默鼎齐龄偉麗靜強軍艷傑濤蘭剛華國紅鵬"
    "輝帥寧龍凱歡夢瑤慶榮貴樹楊蓮蕓義禮賢潔陽達遠雲潤鴻鳳鷹駿馬騰躍進勝興樂愛寶瓊穎書學藝彥堅長壽燁煒煥燦鶯鳴嬌儀倫銘鋼鐵鋒銳鈞錦銀發財為"
    "衛業勳嶽嶺聖繼紹訓啟傳懷韻語謹儉樸誠誼親順暢運飄颯貞筑詩鈺珮玟瑄妤妘宥品"
)
# of these, given names of one character by themselves
SINGLE_CHINESE_GIVEN_NAMES = (
    "伟芳娜敏静丽强磊军洋勇艳杰娟涛明超霞平刚红梅燕玲雪萍飞鹏浩宇俊峰鑫波斌辉健帅旭宁龙凯帆琳丹晶婷欢倩颖莉洁慧蕾薇媛瑶璐瑾瑜琪岩毅彬哲睿"
    "翔昊晨阳鸣亮威武雷震林森松涵蕊芸茜菲雯彤楠桐晖昕煜炜烨坤嘉妍珊玥淼源钰锋铭钢勤诚恒偉麗靜強軍艷傑濤剛紅鵬輝帥寧龍凱歡穎潔瑤陽鳴鋒銘鋼"
)
# given names of two characters beside Faker's, by gender
_CHINESE_GIVEN_NAMES = {
    "female": (
        "丽华 丽娟 丽萍 佳怡 佳琪 冬梅 凤兰 凤英 诗涵 诗琪 淑华 淑芬 淑珍 雅婷 雅琪 雨欣 雨涵 雨桐"
        " 欣怡 欣悦 思雨 思琪 梦瑶 梦琪 梦洁 晓红 "
        "晓梅 晓燕 晓雯 春梅 春燕 桂芳 桂珍 海燕 玉华 玉洁 玉玲 秀梅 秀芳 秀华 秋菊 红梅 美玲 艳红"
        " 若曦 若溪 慧敏 静怡 婉婷 可欣 子涵 紫萱 "
        "嘉怡 梓涵 依诺 一诺 语嫣 心怡"
    ),
    "male": (
        "建国 建军 建华 建平 建明 志强 志明 志伟 志远 志勇 国强 国华 国庆 国栋 文杰 文博 文斌 文华"
        " 浩然 浩宇 浩轩 俊杰 俊峰 俊辉 宇轩 宇航 "
        "子轩 子豪 梓轩 明辉 明哲 明远 海涛 海波 海峰 晓东 晓峰 晓明 春生 永强 永康 永刚 德华 德明"
        " 伟杰 伟明 家豪 家明 天宇 天佑 嘉豪 嘉俊 "
        "思远 思源 泽宇 博文 鹏飞 鹏程 世杰 世豪 少华 少峰 立新 卫东 卫国 小明 小军 小刚 大伟 大勇"
    ),
}
_JAPANESE_FAMILY_NAMES = (
    "佐藤 鈴木 高橋 田中 伊藤 渡辺 山本 中村 小林 加藤 吉田 山田 佐々木 山口 松本 井上 木村 斎藤"
    " 斉藤 清水 山崎 阿部 池田 橋本 山下 石川 "
    "中島 前田 藤田 小川 後藤 岡田 長谷川 村上 近藤 石井 坂本 遠藤 青木 藤井 西村 福田 太田 三浦"
    " 藤原 岡本 松田 中川 中野 原田 小野 田村 "
    "竹内 金子 和田 中山 石田 上田 森田 小島 柴田 宮崎 酒井 工藤 横山 宮本 内田 高木 安藤 谷口 大野"
    " 丸山 今井 高田 藤本 武田 村田 上野 "
    "杉山 増田 平野 大塚 千葉 久保 松井 小山 岩崎 桜井 野口 松尾 野村 木下 菊地 菊池 佐野 大西 杉本"
    " 新井 浜田 市川 古川 水野 小松 島田 "
    "小池 山内 西田 川口 福島 松岡 山中 高野 馬場 辻本 荒木 望月 永井 萩原 熊谷 黒田 飯田 大島 須藤"
    " 吉川 星野 西川 本田 内藤 土屋 秋山 "
    "五十嵐 関口 岩田 川崎 広瀬 上原 久保田 川上 北村 松下 菅原 安田 中田 河野 平田 川村 樋口 矢野"
    " 片山 富田 小田 東野 篠原 浅野 服部 松村 "
    "栗原 大久保 児玉 早川 八木 大石 岡崎 須田 三宅 荒井 柳田 平井 吉村 桑原 内山 石原 尾崎 小西"
    " 田辺 小沢 小澤 渡部 渡邊 渡邉 齋藤 齊藤 "
    "高島 高瀬 奥村 大谷 大橋 大川 大森 松浦 松永 松原 石橋 石塚 宮田 宮川 宮下 宮沢 吉岡 吉野 吉本"
    " 福井 福本 福岡 小倉 小泉 小笠原 小原 "
    "小柳 小谷 青山 青柳 永田 永野 長野 長田 中西 中尾 中井 中谷 中沢 中澤 坂口 坂井 坂田 桜田 櫻井"
    " 辻村 堀内 堀江 堀口 岩本 岩井 岩瀬 "
    "三木 三好 三上 三谷 川島 川田 川端 川原 河合 河村 河原 西山 西野 西尾 西岡 東山 北川 北野 南野"
    " 野田 野中 野崎 野沢 野澤 黒木 黒川 "
    "白井 白石 赤坂 赤木 緑川 金田 金井 金沢 金澤 根本 根岸 森本 森川 森下 森山 村井 村山 村松 村瀬"
    " 杉浦 杉原 杉田 梅田 梅原 松崎 松山 "
    "松島 竹中 竹田 竹下 武藤 武井 稲垣 稲葉 稲田 植田 植村 植木 菅野 菅谷 荻野 荻原 藤沢 藤岡 藤川"
    " 藤村 藤野 藤森 藤山 庄司 庄子 神田 "
    "神谷 神山 成田 成瀬 細川 細田 細谷 織田 徳田 徳永 豊田 豊島 富永 富山 富岡 戸田 土井 土田 土居"
    " 角田 津田 塚本 塚田 堤 古田 古谷 古賀 "
    "湯浅 柏木 榎本 榊原 牧野 牧田 真田 町田 丹羽 向井 今村 今野 今西 今田 天野 安部 安井 足立 秋元"
    " 秋田 相馬 相川 相沢 浅井 浅田 新田 "
    "新谷 飯塚 飯島 市原 伊東 伊達 磯部 板倉 一ノ瀬 泉 岩下 岩永 江口 江藤 遠山 大沢 大澤 大内 大木"
    " 大場 大原 大村 大山 大和田 大平 大竹 "
    "岡村 岡野 岡部 奥田 奥山 尾形 落合 鬼塚 甲斐 加賀 影山 梶原 片岡 勝又 門田 亀井 亀田 川本 川畑"
    " 木田 木原 岸本 岸田 北島 北原 北条 "
    "城戸 君島 草野 楠 国分 倉田 栗田 栗山 黒沢 黒澤 桑田 小出 小杉 小寺 小早川 小宮 小村 小室 小森"
    " 近江 佐伯 佐久間 佐川 坂上 笹川 佐竹 "
    "里見 沢田 澤田 重松 篠田 柴崎 志村 下田 下村 島崎 島村 島津 進藤 末永 杉野 菅 鈴村 瀬戸 千田"
    " 園田 高山 高松 高井 高梨 高岡 滝沢 田口 "
    "田島 田代 田原 田畑 田上 谷川 谷本 玉井 田端 茅野 手塚 寺田 寺島 寺本 堂本 当麻 冨田 友田 鳥居"
    " 直井 永島 長尾 長島 長嶋 長沢 仲村 "
    "夏目 並木 成宮 西本 西原 西沢 西脇 二宮 沼田 橋口 長谷部 畑中 花田 羽田 羽生 浜口 早坂 原口"
    " 半田 坂東 日高 日野 東田 久野 土方 平川 "
    "平山 平松 平岡 深沢 深澤 深田 福原 福永 福山 藤木 藤崎 船越 古屋 星 細野 堀田 堀 本間 本多"
    " 前川 前原 前島 増井 益田 町井 松川 松野 "
    "松沢 三島 三沢 三田 水谷 水島 水口 溝口 緒方 南 皆川 宮内 宮城 宮地 宮原 宮野 宗像 室井 毛利"
    " 本村 本山 森岡 守屋 森永 門脇 柳 柳沢 "
    "柳澤 矢島 矢部 安川 山岡 山岸 山形 山根 山村 山際 結城 湯川 横井 横田 横尾 横川 吉井 吉沢 吉澤"
    " 吉原 吉松 芳賀 米田 米山 若林 若松 "
    "脇田 渡会 綾瀬 如月 小野寺 小山田 五味 佐々 佐藤田 長谷 東海林 日下部 波多野 三ツ矢 御手洗"
    " 和久井 鶴田 鶴見 靏田 瀧本 瀧澤 濱田 濱口 "
    "廣瀬 廣田 眞鍋 真鍋 嶋田 嶋村 國分 澤村 檜山 穂積 林田 原 森 林 東 西 関 岡 谷 辻 畑 島 堺 峰"
    " 滝 沖 乾 旭 轟 椿 桂 桐山 橘 榊 柏 桑野 "
    "栗林 椎名 椎木 楠木"
)
_JAPANESE_GIVEN_NAMES = {
    "male": (
        "太郎 一郎 二郎 次郎 三郎 四郎 五郎 健太 健太郎 健二 健 翔 翔太 翔平 大輔 大樹 大翔 大地"
        " 大介 拓也 拓海 拓真 達也 達郎 哲也 哲郎 "
        "直樹 直人 直之 直也 和也 和彦 和夫 和男 和樹 和弘 和博 一樹 一真 一輝 正 正人 正樹 正夫"
        " 正男 正之 正明 雅人 雅之 雅樹 誠 誠一 "
        "誠司 剛 隆 隆之 隆志 隆司 孝 孝之 貴之 貴志 貴史 崇 浩 浩一 浩二 浩之 浩司 浩介 博 博之"
        " 博史 弘 裕 裕太 裕二 裕之 裕介 祐介 祐樹 "
        "雄太 雄介 雄一 雄大 勇 勇気 勇太 勇樹 悠 悠太 悠斗 悠人 優太 優斗 蓮 陽太 陽斗 陽介 陽平"
        " 颯太 颯 湊 湊斗 樹 律 蒼 蒼太 新 朝陽 暖 "
        "海斗 海翔 涼太 亮 亮太 亮介 亮平 遼 遼太 諒 竜也 竜太 龍之介 龍太郎 隼人 隼 俊 俊介 俊彦"
        " 俊之 駿 駿介 淳 淳一 潤 純 純一 順 慎 "
        "慎一 慎也 慎太郎 信 信二 信之 伸一 真 真一 真也 進 晋 茂 昇 昭 昭夫 明 明夫 明彦 章 彰 晃"
        " 聡 聡太 敏 敏夫 敏之 敏明 智 智也 智之 "
        "智史 朋也 友也 康 康平 康弘 康介 恭平 恭介 京介 啓介 啓太 圭 圭介 圭太 慶太 敬 敬太 賢"
        " 賢一 賢治 憲一 謙 謙一 謙太 研二 顕 元 "
        "源太 玄 豪 光 光一 光男 洸 功 浩太 晴人 春樹 英樹 英明 英雄 秀樹 秀明 秀夫 久 仁 仁志 寛"
        " 寛之 洋 洋一 洋介 洋平 文雄 文也 史郎 武 "
        "武史 武志 丈 毅 猛 忠 忠雄 保 学 守 護 満 稔 実 幹夫 幸一 幸雄 幸司 行雄 良 良太 良介 良平"
        " 凌 凌太 涼 力 怜 玲 渉 航 航平 航太 "
        "耕太 耕平 修 修一 修平 周平 秋人 善 司 努 勉 翼 徹 透 亨 登 治 修司 宗一郎 総一郎 俊太郎"
        " 慎太朗 倫太郎 凛太郎 龍馬 奏太 蒼真 結翔 "
        "朔 碧 岳 大和 壮 創 奨 伊織"
    ),
    "female": (
        "花子 陽子 幸子 和子 洋子 恵子 京子 良子 美智子 美代子 節子 敏子 弘子 文子 信子 清子 智子"
        " 直子 裕子 優子 由美子 由美 由佳 由香 "
        "由紀 由紀子 由貴 明美 久美子 久美 真由美 真由 真理 真理子 真弓 真央 真奈 真琴 美香 美穂"
        " 美咲 美紀 美樹 美奈 美奈子 美和 美幸 美雪 "
        "美保 美帆 美月 美結 美桜 美優 美羽 香織 香奈 香 香里 佳奈 佳子 佳代 加奈 加奈子 可奈子"
        " 果歩 花 花音 華 華子 彩 彩香 彩花 彩乃 "
        "彩音 綾 綾子 綾香 綾乃 愛 愛子 愛美 愛莉 葵 茜 杏 杏奈 杏子 亜美 亜希子 亜由美 亜紀 麻衣"
        " 麻衣子 麻美 麻里 麻由美 舞 円 円香 円花 "
        "恵 恵美 恵美子 恵理 恵理子 絵美 絵里 絵理 絵里子 絵梨 瑛子 英子 栄子 悦子 江美 沙織 沙耶"
        " 沙耶香 沙也加 沙羅 早紀 早苗 咲 咲希 "
        "咲良 桜 里美 里奈 里香 里佳 理恵 理沙 理子 理香 莉子 莉奈 梨花 梨沙 梨奈 凛 凜 澪 玲子"
        " 玲奈 麗子 怜奈 涼子 遥 遥香 遥菜 春香 春菜 "
        "晴香 陽菜 陽葵 陽向 日菜 日向 日和 光 光子 光希 瞳 ひとみ 瑞希 瑞穂 瑞樹 瑞 千春 千夏 千秋"
        " 千尋 千代 千代子 千恵 千恵子 千佳 千鶴 "
        "知美 知子 朋美 朋子 友美 友子 友香 友里 智美 智恵 智恵子 奈々 奈美 奈央 奈津子 奈緒 奈緒子"
        " 菜々子 菜摘 夏希 夏美 夏子 渚 七海 "
        "七瀬 成美 典子 紀子 法子 則子 乃愛 望 希 希美 初美 花梨 星奈 芽依 芽生 萌 萌香 桃子 桃花"
        " 百合 百合子 百花 弥生 靖子 康子 泰子 優 "
        "優香 優奈 優花 優衣 結衣 結菜 結花 結子 唯 柚希 柚葉 雪 雪乃 幸 幸恵 有希 有紀 有里 有美"
        " 好美 佳乃 詩織 詩音 志保 志穂 静香 静子 "
        "静 純子 順子 淳子 澄子 鈴 鈴音 聖子 小百合 寿美子 貴子 孝子 多恵子 妙子 珠美 珠希 環 翠 碧"
        " 緑 南 未来 未央 実咲 みゆき さくら "
        "さゆり あかり あゆみ あおい かおり かなえ ひかり ひなた まゆみ みさき みなみ ゆかり ゆり"
        " のぞみ めぐみ なつみ ちひろ すみれ "
        "こころ いずみ しおり まどか るい"
    ),
}
# characters of given names in Japan; a given name in no list is two or three of them
JAPANESE_GIVEN_NAME_CHARACTERS = (
    "一二三四五太郎朗次之介助輔祐佑佳代子美恵理絵里香奈菜緒央乃花華彩綾愛衣依莉梨凛咲桜桃杏葵茜希望光輝陽翔斗人也哉弥矢平兵翼颯蒼碧海洋浩"
    "広弘宏裕寛博雄男夫生樹木真誠信正雅昌政将勝克和知智友朋直尚孝隆貴崇高敬恭京慶圭啓桂慧健建賢謙憲研元源玄剛豪功幸行晃昭明章彰晶聡敏俊駿"
    "隼瞬春晴秋冬夏静純潤淳順準慎伸進晋新仁志史士司治至時茂繁滋重昇昴翠瑞穂帆歩武毅猛丈忠保学守衛護満実稔幹良亮涼遼諒凌龍竜力礼麗玲怜鈴蓮"
    "連航渉修周宗総壮創奏湊奨祥勲薫馨久寿徳哲鉄徹透亨登泰大達匠拓卓巧匡清澄聖成星誓節千尋夕柚結唯由悠優勇雪百合萌芽萩葉芳郁幾文紋弓織沙早"
    "紗砂羅楽凪渚波那七々音羽心晏朱珠瑠琉璃瑛栄英永詠延円遠薗苑丹旦"
)
_KOREAN_FAMILY_NAMES = (
    "김 이 박 최 정 강 조 윤 장 임 한 오 서 신 권 황 안 송 전 홍 유 고 문 양 손 배 백 허 남 심 노"
    " 하 곽 성 차 주 우 구 민 류 나 진 지 엄 "
    "채 원 천 방 공 현 함 변 염 여 추 도 소 석 선 설 마 길 연 위 표 명 기 반 왕 금 옥 육 인 맹 제"
    " 모 남궁 황보 제갈 선우 독고 사공"
)


@dataclass(frozen=True)
class LanguageNames:
    """The names of one language: family names, and given names of women, of men, and of both."""

    family: frozenset[str]
    female: frozenset[str]
    male: frozenset[str]

    @property
    def given(self) -> frozenset[str]:
        """All given names."""
        return self.female | self.male


@functools.cache
def load_names(language: str) -> LanguageNames:
    """The names of one of `LANGUAGES`: those of Faker's locale and of the lists above, as they are
    written."""
    provider = importlib.import_module(f"faker.providers.person.{language}").Provider
    family, female, male = (
        set(provider.last_names),
        set(provider.first_names_female),
        set(provider.first_names_male),
    )
    if language == CHINESE:
        family |= {*_CHINESE_DOUBLE_FAMILY_NAMES.split(), *_CHINESE_FAMILY_NAMES.split()}
        female |= set(_CHINESE_GIVEN_NAMES["female"].split())
        male |= set(_CHINESE_GIVEN_NAMES["male"].split())
    elif language == JAPANESE:
        family |= set(_JAPANESE_FAMILY_NAMES.split())
        female |= set(_JAPANESE_GIVEN_NAMES["female"].split())
        male |= set(_JAPANESE_GIVEN_NAMES["male"].split())
    elif language == KOREAN:
        family |= set(_KOREAN_FAMILY_NAMES.split())
    return LanguageNames(frozenset(family), frozenset(female), frozenset(male))


def is_east_asian(words: pl.Series) -> Mask:
    """True for words that consist of Chinese characters, kana or Hangul."""
    found: Mask = words.str.contains(EAST_ASIAN_WORD).fill_null(False).to_numpy()
    return found


def is_east_asian_given_name(words: pl.Series) -> Mask:
    """True for words that the lists have as given names, not as family names: `花子`, `さくら`."""
    names = [load_names(name) for name in LANGUAGES]
    given = frozenset().union(*(one.given for one in names)) - frozenset().union(
        *(one.family for one in names)
    )
    found: Mask = words.is_in(sorted(given)).to_numpy()
    return found


def count_family_characters(words: pl.Series) -> I64:
    """How many characters at the start of each word are its family name; 0 for a word that is no
    family name with a given name behind it.

    `金子涵` is the Chinese family name 金 and 子涵, since Chinese has that given name, and not the
    Japanese 金子."""
    patterns = _family_patterns()
    size = pl.lit(0, pl.Int64)
    for pattern in reversed(patterns):
        size = (
            pl.when(pl.col("word").str.contains(pattern))
            .then(pl.col("word").str.extract(pattern).str.len_chars())
            .otherwise(size)
        )
    is_family = pl.col("word").is_in(sorted(load_names(JAPANESE).family))
    found = (
        pl.DataFrame({"word": words})
        .select(pl.when(is_family).then(0).otherwise(size).cast(pl.Int64).fill_null(0))
        .to_series()
    )
    return found.to_numpy()


@functools.cache
def _family_patterns() -> tuple[str, ...]:
    """Patterns of a name in one word, the family name in a group, the first that matches counts."""
    chinese, japanese, korean = (load_names(name).family for name in (CHINESE, JAPANESE, KOREAN))
    chinese = chinese | load_names(TAIWANESE).family
    given = load_names(CHINESE).given | load_names(TAIWANESE).given
    single = "".join(sorted(name for name in chinese if len(name) == 1))
    rest = r"[\p{Han}\p{Hiragana}\p{Katakana}ー]+\z"
    return (
        rf"\A([{single}])(?:{join_names(name for name in given if len(name) == 2)})\z",
        rf"\A({join_names(name for name in chinese if len(name) > 1)})\p{{Han}}{{1,2}}\z",
        rf"\A({join_names(name for name in japanese if len(name) > 1)}){rest}",
        rf"\A([{single}])\p{{Han}}{{1,2}}\z",
        rf"\A({join_names(name for name in japanese if len(name) == 1)}){rest}",
        rf"\A({join_names(name for name in korean if len(name) > 1)})\p{{Hangul}}{{1,2}}\z",
        rf"\A({join_names(name for name in korean if len(name) == 1)})\p{{Hangul}}{{1,2}}\z",
    )


def join_names(names: Iterable[str]) -> str:
    """Names as an alternation, the longest first."""
    return "|".join(sorted(names, key=lambda name: (-len(name), name)))


def is_full_name(words: pl.Series) -> Mask:
    """True for words of three Chinese characters or kana or more that are a family name and a given
    name: `王小明`, `田中太郎`."""
    is_long = (words.str.len_chars() >= MIN_DISTINCTIVE_CHARACTERS) & words.str.contains(
        r"\A[\p{Han}\p{Hiragana}\p{Katakana}ー]+\z"
    )
    found: Mask = is_long.fill_null(False).to_numpy().copy()
    rows = np.flatnonzero(found)
    if len(rows):
        found[rows] = count_family_characters(words.gather(rows)) > 0
    return found


# ----------------------------------------------------------------------------------- surrogates

_ANY_GENDER, _FEMALE, _MALE = range(3)
_HIRAGANA, _KATAKANA = "Hiragana", "Katakana"  # pools of readings, beside those of languages
_POOL_NAMES = (*LANGUAGES, _HIRAGANA, _KATAKANA)
_MIN_POOL_NAMES = 10


def find_languages(words: pl.Series) -> I64:
    """The number in `_POOL_NAMES` of the names to draw from for each word: the language that has it
    as a name, or its kind of kana; Chinese where no language has it."""
    chinese, taiwanese, japanese = (load_names(name) for name in (CHINESE, TAIWANESE, JAPANESE))
    numbers = {name: number for number, name in enumerate(_POOL_NAMES)}
    word = pl.col("word")

    def has_name(names: LanguageNames) -> pl.Expr:
        return word.is_in(sorted(names.family | names.given))

    found = (
        pl.when(word.str.contains(r"\A\p{Hangul}"))
        .then(numbers[KOREAN])
        .when(word.str.contains(r"\A\p{Hiragana}+\z"))
        .then(numbers[_HIRAGANA])
        .when(word.str.contains(r"\A[\p{Katakana}ー]+\z"))
        .then(numbers[_KATAKANA])
        .when(word.str.contains(r"[\p{Hiragana}\p{Katakana}々]"))
        .then(numbers[JAPANESE])
        .when(has_name(chinese))
        .then(numbers[CHINESE])
        .when(has_name(taiwanese))
        .then(numbers[TAIWANESE])
        .when(has_name(japanese))
        .then(numbers[JAPANESE])
        .otherwise(numbers[CHINESE])
    )
    return pl.DataFrame({"word": words}).select(found.cast(pl.Int64)).to_series().to_numpy()


def unify_languages(languages: I64, row: I64) -> I64:
    """Gives all words of a row one language: Japanese, if a word is Japanese only (`林 太郎`), and
    Taiwanese, if a word is written with traditional characters."""
    unified = languages.copy()
    is_chinese = np.isin(languages, [_POOL_NAMES.index(name) for name in (CHINESE, TAIWANESE)])
    for name in (TAIWANESE, JAPANESE):
        number = _POOL_NAMES.index(name)
        unified[is_chinese & np.isin(row, row[languages == number])] = number
    return unified


def draw_east_asian_names(
    words: pl.Series, is_surname: Mask, bits: npt.NDArray[np.uint64], languages: I64
) -> npt.NDArray[np.object_]:
    """A drawn name for each word: a family name or a given name of the language of the word, for a
    Chinese word one of as many characters; a given name of the gender of the word where the lists
    have that as a name of one gender only. `bits` are 32 random bits for each."""
    size = np.minimum(words.str.len_chars().to_numpy().astype(np.int64), 2)
    gender = np.full(len(words), _ANY_GENDER)
    for number, name in enumerate(LANGUAGES):
        names = load_names(name)
        for value, only in (
            (_FEMALE, names.female - names.male),
            (_MALE, names.male - names.female),
        ):
            gender[(languages == number) & words.is_in(sorted(only)).to_numpy()] = value
    gender[is_surname] = _ANY_GENDER
    pool_no = ((languages * 2 + is_surname) * 3 + gender) * 3 + size
    found = np.empty(len(words), object)
    for number in np.unique(pool_no).tolist():  # a few pools
        rows = np.flatnonzero(pool_no == number)
        pool = _list_pool(
            _POOL_NAMES[number // 18], bool(number // 9 % 2), number // 3 % 3, number % 3
        )
        found[rows] = pool[draw_index(bits[rows], len(pool))]
    return found


@functools.cache
def _list_pool(pool_name: str, is_surname: bool, gender: int, size: int) -> npt.NDArray[np.object_]:
    """The names to draw from, sorted, so that a draw gives the same name on every machine."""
    if pool_name in (_HIRAGANA, _KATAKANA):
        provider = importlib.import_module(f"faker.providers.person.{JAPANESE}").Provider
        names = set(provider.last_kana_names if is_surname else provider.first_kana_names)
        if pool_name == _HIRAGANA:
            names = {name.translate(_KATAKANA_TO_HIRAGANA) for name in names}
        return np.array(sorted(names), object)
    listed = load_names(pool_name)
    names = set(listed.family if is_surname else (listed.given, listed.female, listed.male)[gender])
    if pool_name in (CHINESE, TAIWANESE):
        if is_surname and pool_name == CHINESE and size == 1:
            # the simplified and traditional forms of a name are both in the list; those of Faker
            # are simplified
            names = set(
                importlib.import_module(f"faker.providers.person.{CHINESE}").Provider.last_names
            )
        of_size = {name for name in names if min(len(name), 2) == size}
        if not is_surname and len(of_size) < _MIN_POOL_NAMES:
            of_size = {name for name in listed.given if min(len(name), 2) == size}
        if len(of_size) < _MIN_POOL_NAMES:  # Faker's Taiwanese given names have two characters
            of_size = {
                name
                for name in (
                    load_names(CHINESE).family if is_surname else load_names(CHINESE).given
                )
                if len(name) == size
            }
        names = of_size
    elif pool_name == JAPANESE:
        names = {
            name
            for name in names
            if len(name) > 1 and not any("ぁ" <= sign <= "ヿ" for sign in name)
        }
    return np.array(sorted(names), object)


_KATAKANA_TO_HIRAGANA = {code: code - 0x60 for code in range(0x30A1, 0x30F7)}
